"""Answers fit into what a model can read, stay valid, and say what is missing (DESIGN section 7)."""

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.answers import SearchAnswer, WorkflowDetails
from formulary_catalog.server.schemas import output_schema
from formulary_catalog.server.size import DEFAULT_SEARCH_BYTES, MAX_ANSWER_BYTES, SHORTENED, fit, fit_search, size

ADVICE = "ask with top_k for more"
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
        "uri": f"workflow://formulary/workflow-{number}",
    }


def answer(hits: int, *, text: str = REMEDY) -> dict[str, Any]:
    return {
        "workflows": [hit(number, text=text) for number in range(hits)],
        "total_results": 30,
        "search_mode": "hybrid",
        "notes": [],
        "search_id": "0b8f6c1e-6f0e-4f0e-9a55-0d2f2c7f8a10",
    }


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

    assert fit_search(small, budget=DEFAULT_SEARCH_BYTES, advice=ADVICE) == small
    assert fit(details()) == details()


def test_lower_ranks_lose_description_then_reasons_never_labels_and_the_best_result_nothing() -> None:
    whole = answer(6)
    note_bytes = size([SHORTENED])
    excess = [size(whole) + note_bytes - saved for saved in (90, 150, 220)]

    fitted = [fit_search(whole, budget=budget, advice=ADVICE) for budget in excess]

    shrunk = [each["workflows"] for each in fitted]
    assert [hits[0] for hits in shrunk] == [whole["workflows"][0]] * 3
    assert [len(hits[5]["description"]) <= 60 for hits in shrunk] == [True, True, True]
    assert [len(hits[1]["description"]) <= 60 for hits in shrunk] == [False, True, True]
    assert [len(hits[5]["match_reasons"]) for hits in shrunk] == [3, 3, 2]
    assert all(hit["labels"] == whole["workflows"][0]["labels"] for hits in shrunk for hit in hits)
    assert [each["notes"] for each in fitted] == [[SHORTENED]] * 3


def test_results_that_do_not_fit_are_dropped_from_the_end_with_a_note() -> None:
    shrunk = fit_search(answer(10), budget=DEFAULT_SEARCH_BYTES, advice=ADVICE)

    kept = [found["workflow_id"] for found in shrunk["workflows"]]
    assert kept == [f"workflow-{number}" for number in range(len(kept))]
    assert 1 < len(kept) < 10
    assert shrunk["notes"] == [SHORTENED, f"showing the first {len(kept)} of 30; {ADVICE}"]
    assert shrunk["total_results"] == 30


def test_the_answer_given_is_not_changed() -> None:
    whole = answer(10)
    before = copy.deepcopy(whole)

    fit_search(whole, budget=2000, advice=ADVICE)
    fit(whole, budget=2000)

    assert whole == before


@pytest.mark.parametrize("text", ["x" * 150, "💥" * 150, "ü\u202e" * 75, '"\\\n' * 50, "x" * 10_000])
@pytest.mark.parametrize("hits", [0, 1, 2, 10, 50])
@pytest.mark.parametrize("budget", [DEFAULT_SEARCH_BYTES, MAX_ANSWER_BYTES])
def test_a_search_answer_always_fits_and_stays_valid(text: str, hits: int, budget: int) -> None:
    shrunk = fit_search(answer(hits, text=text), budget=budget, advice=ADVICE)

    assert size(shrunk) <= budget
    VALID_SEARCH.validate(shrunk)
    assert len(shrunk["workflows"]) >= min(hits, 1)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=10_000), max_size=5), st.integers(0, 12))
def test_a_search_answer_of_any_text_fits(texts: list[str], hits: int) -> None:
    whole = answer(hits, text="".join(texts)) | {"notes": texts}

    shrunk = fit_search(whole, budget=DEFAULT_SEARCH_BYTES, advice=ADVICE)

    assert size(shrunk) <= DEFAULT_SEARCH_BYTES
    VALID_SEARCH.validate(shrunk)


def test_a_best_result_that_is_too_large_alone_is_cut_but_keeps_its_identity() -> None:
    shrunk = fit_search(answer(3, text="x" * 10_000), budget=DEFAULT_SEARCH_BYTES, advice=ADVICE)

    (best,) = shrunk["workflows"]
    assert (best["workflow_id"], best["uri"]) == ("workflow-0", "workflow://formulary/workflow-0")
    assert any("workflows[0].title" in note for note in shrunk["notes"])


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
