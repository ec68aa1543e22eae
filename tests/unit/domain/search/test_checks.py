"""What an answer says that is to be checked before one of its first hits is run."""

import math
from typing import Any

import pytest

from formulary_catalog.domain.answers.catalog import WorkflowHit
from formulary_catalog.domain.search.checks import ALIKE, names_to_check, what_to_check
from formulary_catalog.domain.search.results import workflow_hit
from formulary_catalog.domain.stored import StoredVersion, WorkflowOutcome
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from support import manifest

Line = tuple[WorkflowHit, RemediationWorkflow]


def _line(name: str, *, confidence: float = 0.8, behind: float = 0.0, **description: str) -> Line:
    """A hit; `behind`: how far, in log odds, its confidence is below that of the first."""
    document: dict[str, Any] = manifest.workflow(name)
    document["spec"]["description"] |= description
    workflow = RemediationWorkflow.model_validate(document)
    stored = StoredVersion(
        version_id="wf_ver_0",
        namespace="formulary",
        name=name,
        version=workflow.spec.version,
        status="Active",
        ambiguous=False,
        outcome=WorkflowOutcome(),
    )
    hit = workflow_hit(
        workflow,
        stored=stored,
        cosine=None,
        confidence=_lowered(confidence, by=behind),
        reasons=[],
        caution="",
    )
    return hit, workflow


def _lowered(confidence: float, *, by: float) -> float:
    return 1 / (1 + math.exp(by - math.log(confidence / (1 - confidence))))


QUERY = "OOMKilled"
LONG = "Anything else is down. " * 12


def test_of_a_clear_first_hit_it_is_said_what_it_is_not_for() -> None:
    page = [_line("a", preconditions="A pod.", whenNotToUse="It leaks.\n It is a Job."), _line("b", behind=2 * ALIKE)]
    assert what_to_check(page, query=QUERY) == ["before a run, check when_not_to_use of a (It leaks. It is a Job.)"]


def test_where_its_author_excludes_nothing_it_is_said_what_it_needs() -> None:
    assert what_to_check([_line("a", preconditions="A pod.")], query=QUERY) == [
        "before a run, check preconditions of a (A pod.)"
    ]


@pytest.mark.parametrize(
    "clause", ["The heap leaks, e.g. Java's.", "not if the heap leaks; then take b.", '"heap leaks" is said!']
)
def test_the_clause_that_speaks_most_of_the_query_comes_first_and_the_beginning_last(clause: str) -> None:
    beginning = "Anything;" if clause.startswith("not") else "Anything."
    text = f"{beginning} {clause} Then it is another."
    (note,) = what_to_check([_line("a", whenNotToUse=text)], query="heap of the leaking pod")
    assert note == f"before a run, check when_not_to_use of a ({clause} Then it is another. … {beginning})"


def test_words_that_everybody_says_do_not_choose_the_clause() -> None:
    text = f"The pod leaks memory. {LONG}Something else happened to the issues."
    (note,) = what_to_check([_line("a", whenNotToUse=text)], query="something happened: issues, pod leaks memory")
    assert note.startswith("before a run, check when_not_to_use of a (The pod leaks memory.")


def test_a_clause_without_spaces_is_cut_anywhere() -> None:
    (note,) = what_to_check([_line("a", whenNotToUse=f"{LONG}{'存' * 200}")], query="存" * 200)
    assert "存存" in note


def test_of_a_long_text_that_says_nothing_of_the_query_the_beginning_is_quoted() -> None:
    (note,) = what_to_check([_line("a", whenNotToUse=LONG)], query="🙈")
    assert note.startswith("before a run, check when_not_to_use of a (Anything else is down. Anything")


def test_hits_that_fit_alike_are_told_apart_by_what_their_authors_wrote() -> None:
    (note,) = what_to_check(
        [
            _line("a", preconditions="An old revision exists.", whenNotToUse="The old one crashes too."),
            _line("b", behind=ALIKE / 2, preconditions="The log names a missing key."),
            _line("c", behind=2 * ALIKE, preconditions="Anything."),
        ],
        query=QUERY,
    )
    assert note == (
        "the first 2 fit about equally; to choose, check when_not_to_use of a (The old one crashes too.); "
        "preconditions of b (The log names a missing key.)"
    )


def test_under_an_incident_only_allowed_workflows_are_quoted_by_their_names() -> None:
    text = "Many pods: take oom-scale-out (node-drain), or oom-restart-all. A read-only node: oom-restart."
    page = [_line("a", whenNotToUse=text)]
    masked = "[not allowed here]"
    assert what_to_check(page, query=QUERY, allowed={"oom-scale-out"}) == [
        f"before a run, check when_not_to_use of a (Many pods: take oom-scale-out ({masked}), or "
        f"{masked}. A read-only node: {masked}.)"
    ]
    assert what_to_check(page, query=QUERY) == [f"before a run, check when_not_to_use of a ({text})"]
    assert names_to_check(page) == {"oom-restart", "oom-scale-out", "node-drain", "oom-restart-all"}


@pytest.mark.parametrize(
    "page",
    [
        [],
        [_line("a"), _line("b", behind=2 * ALIKE, preconditions="It.")],
        [_line("a"), _line("b")],
        [_line("a", confidence=0.3, preconditions="It."), _line("b", confidence=0.3, preconditions="It.")],
        [_line("a", whenNotToUse="\n- \n", preconditions="\n1. \n")],
    ],
    ids=["nothing", "nothing written of the first", "nothing written", "nothing fits", "an empty list"],
)
def test_nothing_is_said_where_there_is_nothing_to_check(page: list[Line]) -> None:
    assert what_to_check(page, query=QUERY) == []


@pytest.mark.parametrize("written", ["word " * 200, "wörter " * 200, "x" * 900, "💥" * 300, "容器内存不足" * 60])
def test_at_most_three_are_compared_in_300_bytes(written: str) -> None:
    (note,) = what_to_check([_line(name, preconditions=written) for name in "abcdef"], query=QUERY)
    assert "the first 6 fit" in note
    assert [f"{name} (" in note for name in "abcdef"] == [True, True, True, False, False, False]
    assert len(note.encode()) <= 300
    assert note.count("…)") == 3


@pytest.mark.parametrize("longest", [63, 100, 253])
def test_long_names_leave_no_room_for_texts_and_still_fit(longest: int) -> None:
    notes = what_to_check([_line(name * longest, preconditions="word " * 200) for name in "abcdef"], query=QUERY)
    assert all(len(note.encode()) <= 300 for note in notes)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Use node-drain instead.", {"node-drain"}),
        ("Prefer drain-node.", {"drain-node"}),
        ("`drain-node` is better, or escalate to node-drain.", {"drain-node", "node-drain"}),
        ("Too many: etcd-defragment, then pod-restart-all.", {"etcd-defragment", "pod-restart-all"}),
        ("The kube-controller-manager is down since 2026-11-29 on a read-only node.", set()),
        ("It is about an out-of-date image (kube-proxy).", {"out-of-date"}),
    ],
)
def test_what_reads_as_a_name_is_told_from_plain_words(text: str, found: set[str]) -> None:
    assert names_to_check([_line("a", whenNotToUse=text)]) == found
