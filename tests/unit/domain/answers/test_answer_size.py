"""Answers fit into what a model can read, stay valid, and say what is missing (DESIGN section 7)."""

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.answers.answer_size import (
    ASKED_BYTES,
    DEFAULT_SEARCH_BYTES,
    MAX_ANSWER_BYTES,
    SHORTENED,
    within,
)
from formulary_catalog.domain.answers.catalog import SearchAnswer, WorkflowDetails, WorkflowHit
from formulary_catalog.domain.answers.shortening import fit, size
from formulary_catalog.edges.mcp.tools import output_schema

VALID_SEARCH = jsonschema.Draft202012Validator(output_schema(SearchAnswer))
VALID_DETAILS = jsonschema.Draft202012Validator(output_schema(WorkflowDetails))
REMEDY = "Raises the memory limit of one container to a measured value and rolls the workload, slowly. "


def hit(number: int, *, text: str = REMEDY) -> dict[str, Any]:
    return {
        "workflow_id": f"workflow-{number}",
        "version": "1.0.0",
        "version_id": "wf_ver_" + "0" * 20,
        "namespace": "formulary",
        "title": f"Workflow {number}: {text}",
        "description": text,
        "action_type": "IncreaseMemoryLimits",
        "signal_types": ["OOMKilled"],
        "labels": {"severity": ["critical", "high"], "environment": ["production"]},
        "similarity_score": 0.5,
        "confidence": 0.5,
        "match_reasons": ["declared for severity critical", "words: oom", "meaning: cosine 0.50"],
        "estimated_duration": "10m",
        "success_rate": None,
        "median_duration_seconds": None,
        "risk_level": "low",
        "caution": "its when_not_to_use speaks of: Java heap space" if number == 1 else "",
        "uri": f"workflow://formulary/workflow-{number}",
    }


def answer(hits: int, *, text: str = REMEDY) -> SearchAnswer:
    return SearchAnswer(
        workflows=[WorkflowHit(**hit(number, text=text)) for number in range(hits)],
        total_results=30,
        search_mode="hybrid",
        inferred={"signal_type": "OOMKilled"},
        notes=[],
        search_id="0b8f6c1e-6f0e-4f0e-9a55-0d2f2c7f8a10",
    )


def details(*, text: str = "", steps: int = 2, versions: int = 1) -> dict[str, Any]:
    filled = dict.fromkeys(("title", "description", "when_to_use", "when_not_to_use", "preconditions"), text)
    step = {"name": "look", "description": text, "command": "kubectl get pods " + text}
    return {
        "workflow_id": "w",
        "version": "1.0.0",
        "version_id": "wf_ver_" + "0" * 20,
        "namespace": "formulary",
        "status": "Active",
        **filled,
        "action_type": "Restart",
        "signal_types": ["OOMKilled"],
        "labels": {"severity": ["critical"]},
        "risk_level": "low",
        "estimated_duration": "10m",
        "success_rate": None,
        "median_duration_seconds": None,
        "invocable": True,
        "not_invocable_because": "",
        "prerequisites": [text],
        "steps": [dict(step) for _ in range(steps)],
        "rollback_steps": [dict(step)],
        "parameters": [{"name": "NAMESPACE", "type": "string"}],
        "input_schema": {"type": "object", "properties": {"NAMESPACE": {"type": "string", "description": text}}},
        "execution": {"engine": "job"},
        "related": [],
        "versions": [{"version": "1.0.0", "version_id": "v", "status": "Superseded"}] * versions,
        "notes": [],
        "uri": "workflow://formulary/w@1.0.0",
    }


def test_an_answer_that_fits_is_left_alone() -> None:
    small = answer(3)

    assert within(small, limit=DEFAULT_SEARCH_BYTES) is small
    assert fit(details()) == details()


def rated(*confidences: float) -> SearchAnswer:
    """An answer with hits of these confidences."""
    whole = answer(len(confidences))
    hits = [
        each.model_copy(update={"confidence": confidence})
        for each, confidence in zip(whole.workflows, confidences, strict=True)
    ]
    return whole.model_copy(update={"workflows": hits})


def test_weak_hits_go_before_a_text_of_another_gets_shorter() -> None:
    whole = rated(0.9, 0.8, 0.7, 0.4, 0.3, 0.2, 0.15)
    likely = [(hit.title, hit.description, hit.match_reasons) for hit in whole.workflows[:3]]

    for limit in range(2_400, size(whole.as_json()), 50):
        shrunk = within(whole, limit=limit).workflows
        assert [(hit.title, hit.description, hit.match_reasons) for hit in shrunk[:3]] == likely
        assert all(hit.description for hit in shrunk)


def test_likely_hits_become_brief_from_the_last_rank_up_before_any_is_dropped() -> None:
    whole = answer(10)

    for limit in range(5_400, size(whole.as_json()), 100):
        shrunk = within(whole, limit=limit).workflows
        assert len(shrunk) == 10
        described = [bool(hit.description) for hit in shrunk]
        assert described == sorted(described, reverse=True)
        assert described[0]


@pytest.mark.parametrize("limit", range(1_000, 6_000, 250))
def test_no_title_is_cut_where_another_hit_could_be_left_out(limit: int) -> None:
    whole = answer(10)
    titles = [hit.title for hit in whole.workflows]

    shrunk = [hit.title for hit in within(whole, limit=limit).workflows]

    assert shrunk == titles[: len(shrunk)]


@pytest.mark.parametrize("limit", range(1_000, 4_000, 250))
def test_no_hit_is_shown_without_its_caution(limit: int) -> None:
    hits = within(answer(10), limit=limit).workflows
    assert all(hit.caution for hit in hits if hit.workflow_id == "workflow-1")


@pytest.mark.parametrize("limit", [2_500, DEFAULT_SEARCH_BYTES, 6_000])
def test_every_hit_keeps_what_identifies_ranks_and_explains_it(limit: int) -> None:
    whole = answer(10)

    shrunk = within(whole, limit=limit).as_json()["workflows"]

    assert len(shrunk) == 10 or limit < 5_000
    kept = (
        "workflow_id", "version", "version_id", "similarity_score", "confidence", "risk_level", "action_type", "uri",
        "success_rate", "estimated_duration", "signal_types",
    )  # fmt: skip
    for before, after in zip(whole.as_json()["workflows"], shrunk, strict=False):
        assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
        assert before["title"] == after["title"]
        assert after["match_reasons"][0] == before["match_reasons"][0]


def test_the_room_of_a_dropped_hit_is_given_to_those_that_stay() -> None:
    whole = answer(10)
    longest_cut = 150
    for limit in range(1_000, DEFAULT_SEARCH_BYTES, 50):
        shrunk = within(whole, limit=limit)
        stayed = whole.workflows[: len(shrunk.workflows)]
        assert size(shrunk.as_json()) > limit - longest_cut or shrunk.workflows == stayed


def test_fifty_hits_with_all_that_the_starter_catalog_says_are_whole() -> None:
    whole = answer(50)

    assert within(whole, limit=ASKED_BYTES) is whole


def test_what_no_contract_lists_is_left_out_before_any_text_is_cut() -> None:
    whole = answer(3)

    shrunk = within(whole, limit=size(whole.as_json()) - 1)

    assert [hit.description for hit in shrunk.workflows] == [hit.description for hit in whole.workflows]
    assert "median_duration_seconds" not in shrunk.workflows[-1].model_fields_set
    assert "success_rate" in shrunk.workflows[-1].model_fields_set


def test_hits_that_do_not_fit_are_dropped_from_the_end_with_a_note() -> None:
    shrunk = within(answer(10), limit=2000)

    kept = [hit.workflow_id for hit in shrunk.workflows]
    assert kept == [f"workflow-{number}" for number in range(len(kept))]
    assert 1 < len(kept) < 10
    assert shrunk.notes[0] == SHORTENED
    assert shrunk.notes[1].startswith(f"{10 - len(kept)} more hit")
    assert shrunk.total_results == 30


def test_an_answer_whose_hits_all_fit_does_not_speak_of_dropped_ones() -> None:
    assert within(answer(8), limit=DEFAULT_SEARCH_BYTES).notes == [SHORTENED]


def test_a_long_note_is_cut_before_a_hit_is_dropped() -> None:
    whole = answer(8).model_copy(update={"notes": ["to choose, " + "check this " * 80]})

    shrunk = within(whole, limit=DEFAULT_SEARCH_BYTES + 300)

    assert len(shrunk.workflows) == 8
    assert 100 < len(shrunk.notes[0]) <= 300


def test_the_answer_given_is_not_changed() -> None:
    whole, several = answer(10), details()
    before, before_several = whole.model_copy(deep=True), copy.deepcopy(several)

    within(whole, limit=2000)
    fit(several, budget=2000)

    assert whole == before
    assert several == before_several


@pytest.mark.parametrize("text", ["x" * 150, "💥" * 150, "ü\u202e" * 75, '"\\\n' * 50, "x" * 10_000])
@pytest.mark.parametrize("hits", [0, 1, 2, 10, 50])
@pytest.mark.parametrize("limit", [DEFAULT_SEARCH_BYTES, ASKED_BYTES])
def test_a_search_answer_always_fits_and_stays_valid(text: str, hits: int, limit: int) -> None:
    shrunk = within(answer(hits, text=text), limit=limit)

    assert size(shrunk.as_json()) <= limit
    VALID_SEARCH.validate(shrunk.as_json())
    assert len(shrunk.workflows) >= min(hits, 1)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=10_000), max_size=5),
    st.integers(0, 12),
    st.integers(1500, 12_000),
)
def test_a_search_answer_of_any_text_fits_and_no_byte_is_given_up_in_vain(
    texts: list[str], hits: int, limit: int
) -> None:
    whole = answer(hits, text="".join(texts)).model_copy(update={"notes": texts})

    shrunk = within(whole, limit=limit)

    assert size(shrunk.as_json()) <= limit
    VALID_SEARCH.validate(shrunk.as_json())
    assert shrunk == whole or size(whole.as_json()) > limit
    more = [note for note in shrunk.notes if "did not fit" in note]
    assert len(more) == (len(shrunk.workflows) < hits) or size(texts) > limit / 2


def test_a_first_hit_that_is_too_large_alone_is_cut_but_keeps_its_identity() -> None:
    shrunk = within(answer(3, text="x" * 10_000), limit=DEFAULT_SEARCH_BYTES)

    best = shrunk.workflows[0]
    assert (best.workflow_id, best.uri) == ("workflow-0", "workflow://formulary/workflow-0")
    assert best.title.endswith("…")


def test_the_longest_texts_are_cut_before_any_command_and_are_named() -> None:
    whole = details() | {"when_to_use": "x" * 10_000, "preconditions": "y" * 20_000}
    whole["steps"][0]["command"] = "kubectl " + "z" * 6000

    shrunk = fit(whole)

    assert size(shrunk) <= MAX_ANSWER_BYTES
    assert shrunk["steps"] == whole["steps"]
    assert "cut to fit: when_to_use, preconditions;" in shrunk["notes"][-1]


def test_a_command_that_has_to_be_cut_is_always_named() -> None:
    whole = details(steps=30)
    for step in whole["steps"]:
        step["command"] = "kubectl " + "z" * 4000

    shrunk = fit(whole)

    cut = [number for number, step in enumerate(shrunk["steps"]) if step["command"].endswith("…")]
    assert size(shrunk) <= MAX_ANSWER_BYTES
    assert cut
    assert all(f"steps[{number}].command" in shrunk["notes"][-1] for number in cut)


@pytest.mark.parametrize("text", ["", "x" * 10_000, "💥" * 3000])
@pytest.mark.parametrize(("steps", "versions"), [(1, 1), (2000, 3), (3, 5000)])
def test_details_always_fit_and_stay_valid(text: str, steps: int, versions: int) -> None:
    shrunk = fit(details(text=text, steps=steps, versions=versions))

    assert size(shrunk) <= MAX_ANSWER_BYTES
    VALID_DETAILS.validate(shrunk)


def test_lists_that_are_shortened_are_named() -> None:
    shrunk = fit(details(versions=5000))

    assert f"versions after the first {len(shrunk['versions'])}" in shrunk["notes"][-1]
