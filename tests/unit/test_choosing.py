"""What an answer says where the words fit several workflows alike."""

from typing import Any

import pytest

from formulary_catalog.domain.answers import WorkflowHit
from formulary_catalog.domain.choosing import what_to_check
from formulary_catalog.domain.outcome import Outcome
from formulary_catalog.domain.presenting import workflow_hit
from formulary_catalog.domain.workflow import RemediationWorkflow
from support import manifest

Line = tuple[WorkflowHit, RemediationWorkflow]


def _line(name: str, confidence: float, **description: str) -> Line:
    document: dict[str, Any] = manifest.workflow(name)
    document["spec"]["description"] |= description
    workflow = RemediationWorkflow.model_validate(document)
    hit = workflow_hit(
        workflow,
        namespace="formulary",
        version_id="wf_ver_0",
        ambiguous=False,
        cosine=None,
        confidence=confidence,
        reasons=[],
        outcome=Outcome(),
    )
    return hit, workflow


def test_hits_that_fit_alike_are_told_apart_by_what_their_authors_wrote() -> None:
    (note,) = what_to_check(
        [
            _line("a", 0.5, preconditions="An old revision exists.", whenNotToUse="The old one crashes too."),
            _line("b", 0.45, preconditions="The log names a missing key."),
            _line("c", 0.2, preconditions="Anything."),
        ]
    )
    assert note == (
        "the first 2 fit about equally; to choose, check a (needs: An old revision exists. | when not: The old one "
        "crashes too.); b (needs: The log names a missing key.)"
    )


@pytest.mark.parametrize(
    "page",
    [
        [],
        [_line("a", 0.5, preconditions="It.")],
        [_line("a", 0.9, preconditions="It."), _line("b", 0.5, preconditions="It.")],
        [_line("a", 0.5), _line("b", 0.5)],
        [_line("a", 0.0, preconditions="It."), _line("b", 0.0, preconditions="It.")],
    ],
    ids=["nothing", "one", "a clear first", "nothing written", "nothing fits"],
)
def test_nothing_is_said_where_there_is_nothing_to_choose_or_to_check(page: list[Line]) -> None:
    assert what_to_check(page) == []


def test_at_most_three_are_compared_in_short_texts() -> None:
    (note,) = what_to_check([_line(name, 0.5, preconditions="word " * 200) for name in "abcdef"])
    assert "the first 6 fit" in note
    assert [f"{name} (needs" in note for name in "abcdef"] == [True, True, True, False, False, False]
    assert len(note) < 500
