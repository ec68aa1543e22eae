"""The story of a trace: what a person reads after the outage."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.audit.chain import IntegrityFinding, Problem
from formulary_catalog.domain.audit.narration import narrate
from formulary_catalog.domain.audit.passages import KINDS
from formulary_catalog.domain.audit.wording import Tone, spell_duration
from formulary_catalog.domain.reading import TraceAnswer
from formulary_catalog.edges.cli.audit.rendering import show_story
from formulary_catalog.edges.mcp.tools import TOOLS_BY_NAME
from formulary_catalog.runtime.terminal import Page
from support import incident
from support.golden import assert_golden
from support.incident import UNSUPPORTED, answer, call, recalled, story

GOLDEN = Path(__file__).parents[2] / "golden"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    "action arguments caller candidates confidence duration_seconds gate gate_report input invocation_id labels "
    "missing outcome outputs phase query reason reasoning reference result risks rules target timeout_seconds total "
    "verdict version version_id why workflow_id".split()
)
PAYLOADS = st.recursive(
    JSON, lambda inner: st.dictionaries(NAMES, inner | st.lists(inner, max_size=3), max_size=6), max_leaves=12
)


def printed(shown: TraceAnswer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    show_story(shown, page=Page(stream))
    return stream.getvalue()


def test_an_incident_is_told_from_the_first_search_to_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_golden(printed(answer(*incident.HAPPENED), monkeypatch), GOLDEN / "story_80.txt")


def test_a_broken_chain_is_said_before_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = IntegrityFinding(problem=Problem.EDITED, message="the body was changed", trace_id="rr-2026-0042", seq=1)
    page = printed(answer(*incident.HAPPENED, findings=(finding,)), monkeypatch)
    assert page.index("BROKEN") < page.index("event 1, edited: the body was changed") < page.index("searched for")
    assert page.index("searched for") < page.rindex("the body was changed") < page.index("read formulary/oom-raise")
    assert "unbroken" not in page


@pytest.mark.parametrize(
    "body", ["", "no JSON", "[]", "{}", '{"at":5,"payload":{}}', '{"at":"then","payload":{}}', "[" * 100_000]
)
def test_a_damaged_event_is_told_as_one(body: str) -> None:
    events = recalled("rr-1", [(0, "search", incident.SEARCH), (1, "selection", incident.SELECTION)])
    damaged = replace(events[0], body=body)
    told = narrate("rr-1", [damaged, events[1], replace(damaged, seq=3)])
    assert [passage.description.tone for passage in told.passages] == [Tone.BAD, Tone.GOOD, Tone.BAD]
    assert told.passages[0].description.title == "search: the event is damaged and cannot be read"
    assert told.passages[2].at == events[1].at


def test_a_story_needs_events() -> None:
    with pytest.raises(ValueError, match="needs events"):
        narrate("rr-1", [])


def test_a_choice_that_its_search_did_not_return_is_told_as_no_evidence() -> None:
    passage = story((0, "search", incident.SEARCH), (1, "selection", UNSUPPORTED)).passages[1]
    assert passage.description.tone is Tone.WAITING
    assert [(line.label, line.text) for line in passage.description.lines][-1] == (
        "evidence",
        "none: the search that it names did not return this version",
    )


def test_a_choice_without_a_search_is_told_as_no_evidence() -> None:
    passage = story((0, "selection", {**UNSUPPORTED, "search_id": ""})).passages[0]
    assert passage.description.title == "named oom-raise@1.0.0, which no search before it returned"
    assert passage.description.lines[-1].text == "none: no search of the caller before it returned this version"


def test_a_search_is_told_with_what_the_incident_demanded_and_what_was_read_from_the_query() -> None:
    applied = {
        "given": {"component": ["v1/Pod"]},
        "incident": {"environment": "production", "priority": "P0"},
        "detected": {"hpaenabled": "true"},
        "inferred": {"signal_type": "OOMKilled"},
        "custom_labels": "hmac-sha256:0d1e",
        "notes": ["environment was set by the incident's context, not by the call"],
    }
    (passage,) = story((0, "search", {**incident.SEARCH, "constraints": applied})).passages
    assert [(line.label, line.text) for line in passage.description.lines][2:7] == [
        ("incident", "environment production; priority P0"),
        ("detected", "hpaenabled true"),
        ("inferred", "signal_type OOMKilled"),
        ("custom labels", "sealed"),
        ("note", "environment was set by the incident's context, not by the call"),
    ]


def test_a_choice_that_no_search_found_stands_out() -> None:
    told = story(
        (0, "search", call(result={"candidates": [{"version_id": "wf_ver_x"}]})), (1, "selection", incident.SELECTION)
    )
    assert [line.tone for line in told.passages[1].description.lines if line.label == "rank"] == [Tone.WAITING]


def test_rules_that_matched_without_deciding_are_told_as_well() -> None:
    (passage,) = story((0, "invocation.decided", incident.ALLOWED)).passages
    assert [(line.label, line.text) for line in passage.description.lines][:2] == [
        ("why", "approved by alice"),
        ("also", "REQUIRE_EVIDENCE by rule ask-first of contract formulary/production: people watch"),
    ]


def test_a_kind_that_is_not_known_is_told_by_its_fields() -> None:
    (passage,) = story((0, "drill.ended", {"result": [1, 2], "caller": "bob", "nothing": None})).passages
    assert passage.description.title == "drill.ended"
    assert [(line.label, line.text) for line in passage.description.lines] == [("caller", "bob"), ("result", "[1, 2]")]


def test_a_caller_is_named_where_it_changes() -> None:
    told = story(*incident.HAPPENED)
    assert [passage.caller for passage in told.passages if passage.caller] == [
        incident.AGENT,
        "alice",
        incident.AGENT,
        "formulary-operator",
    ]


def test_escapes_in_what_was_recorded_do_not_reach_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = call(arguments={"query": "\x1b[31mred\x1b]0;title\x07"}, result={"total": "\x1b[2J"})
    assert "\x1b" not in printed(answer((0, "search", hostile)), monkeypatch)


@pytest.mark.parametrize("tool", TOOLS_BY_NAME)
def test_each_tool_has_words_for_its_event(tool: str) -> None:
    assert TOOLS_BY_NAME[tool].action in KINDS


@given(kind=st.sampled_from(sorted(KINDS)) | st.text(), payload=PAYLOADS)
def test_no_payload_makes_the_story_fall_over(kind: str, payload: Any) -> None:
    shown = answer((0, "search", incident.SEARCH), (1, kind, payload), (2, "invocation.finished", payload))
    show_story(shown, page=Page(io.StringIO()))
    assert len(shown.story.passages) == 3


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min 0 s"),
        (60, "1 min 0 s"),
        (3_599, "59 min 59 s"),
        (11_100, "3 h 5 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert spell_duration(seconds) == said
