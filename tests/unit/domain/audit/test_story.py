"""The story of a trace: what a person reads after the outage."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.cli.audit.rendering import show_story
from formulary_catalog.domain.audit.chain import IntegrityFinding, Problem
from formulary_catalog.domain.audit.narration import Story, narrate
from formulary_catalog.domain.audit.passages import KINDS
from formulary_catalog.domain.audit.wording import Tone, spell_duration
from formulary_catalog.runtime.terminal import Page
from formulary_catalog.server.mcp.tools.tool_list import TOOLS_BY_NAME
from support import incident
from support.golden import assert_golden
from support.incident import call, candidate, recalled

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

FIRST, SECOND = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
DRY = {**incident.REQUESTED, "dry_run": True}
DRY_STARTED = {**incident.STARTED, "dry_run": True}
UNSUPPORTED = {**incident.SELECTION, "result": {**incident.SELECTION["result"], "supported": False}}


def story(*happened: tuple[float, str, Any]) -> Story:
    return narrate("rr-2026-0042", recalled("rr-2026-0042", happened))


def printed(told: Story, monkeypatch: pytest.MonkeyPatch, *, findings: tuple[IntegrityFinding, ...] = ()) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    show_story(told, findings=findings, page=Page(stream))
    return stream.getvalue()


def test_an_incident_is_told_from_the_first_search_to_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_golden(printed(story(*incident.HAPPENED), monkeypatch), GOLDEN / "story_80.txt")


def test_a_broken_chain_is_said_before_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = IntegrityFinding(problem=Problem.EDITED, message="the body was changed", trace_id="rr-2026-0042", seq=1)
    page = printed(story(*incident.HAPPENED), monkeypatch, findings=(finding,))
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


@pytest.mark.parametrize(
    ("happened", "outcome", "tone"),
    [
        ([("search", incident.SEARCH)], "nothing was chosen and nothing was run", Tone.PLAIN),
        (
            [("search", incident.SEARCH), ("selection", incident.SELECTION)],
            "chose formulary/oom-raise@1.0.0; nothing was run",
            Tone.PLAIN,
        ),
        (
            [("invocation.requested", incident.REQUESTED), ("invocation.decided", incident.WAITS)],
            "run of formulary/oom-raise@1.0.0: waits for an approval or evidence",
            Tone.WAITING,
        ),
        (
            [
                ("invocation.requested", incident.REQUESTED),
                ("invocation.decided", {**incident.WAITS, "phase": "Pending"}),
            ],
            "run of formulary/oom-raise@1.0.0: goes on as a dry run; a real one would have to wait for evidence",
            Tone.PLAIN,
        ),
        (
            [("invocation.requested", incident.REQUESTED), ("invocation.decided", incident.decided("BLOCK"))],
            "run of formulary/oom-raise@1.0.0: blocked",
            Tone.BAD,
        ),
        (
            [
                ("invocation.requested", incident.REQUESTED),
                ("invocation.finished", {**incident.FINISHED, "phase": "TimedOut"}),
                ("search", incident.SEARCH),
            ],
            "run of formulary/oom-raise@1.0.0 timed out after 42 s",
            Tone.BAD,
        ),
        (
            [("governance.verdict", call(result={"verdict": {"final_decision": "DEGRADE"}}))],
            "verdict: allowed as a dry run only",
            Tone.WAITING,
        ),
        (
            [("search", incident.SEARCH), ("selection", UNSUPPORTED)],
            "named formulary/oom-raise@1.0.0, which its search did not return; nothing was run",
            Tone.PLAIN,
        ),
        (
            [("selection", incident.SELECTION), ("selection", UNSUPPORTED)],
            "chose oom-raise@1.0.0; nothing was run",
            Tone.PLAIN,
        ),
        (
            [("search", incident.SEARCH), ("selection", {**incident.SELECTION, "outcome": "NotFound"})],
            "nothing was chosen and nothing was run",
            Tone.PLAIN,
        ),
        (
            [
                ("invocation.requested", {**incident.REQUESTED, "dry_run": True}),
                ("invocation.finished", {**incident.FINISHED, "reason": "DryRun"}),
            ],
            "dry run of formulary/oom-raise@1.0.0 succeeded after 42 s",
            Tone.GOOD,
        ),
        (
            [
                ("invocation.requested", incident.REQUESTED),
                ("invocation.started", {**incident.STARTED, "dry_run": True}),
                ("invocation.cancelled", incident.STARTED),
            ],
            "dry run of formulary/oom-raise@1.0.0 was cancelled after 1.0 s",
            Tone.BAD,
        ),
        (
            [("search", incident.SEARCH), ("invocation.requested", DRY)],
            "asked to run formulary/oom-raise@1.0.0 as a dry run",
            Tone.PLAIN,
        ),
        ([("list", call(result={"total": 7}))], "listed the catalog: 7 workflows", Tone.PLAIN),
    ],
)
def test_the_outcome_says_how_far_it_went(happened: list[tuple[str, Any]], outcome: str, tone: Tone) -> None:
    (said,) = story(*((float(second), *event) for second, event in enumerate(happened))).outcomes
    assert (said.title, said.tone) == (outcome, tone)


def test_each_run_has_an_outcome_of_its_own() -> None:
    other = {"invocation_id": "inv-other", "workflow_id": "formulary/restart", "version": "2.0.0"}
    told = story(
        (0, "invocation.requested", incident.REQUESTED),
        (1, "invocation.started", incident.STARTED),
        (2, "invocation.requested", other),
        (3, "invocation.cancelled", {**incident.STARTED, "reason": "Cancelled"}),
        (4, "invocation.refused", {"invocation_id": "inv-other", "message": "no executor"}),
    )
    assert [outcome.title for outcome in told.outcomes] == [
        "run of formulary/oom-raise@1.0.0 was cancelled after 2.0 s",
        "run of formulary/restart@2.0.0 refused",
    ]


@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        (
            [
                ("invocation.requested", DRY),
                ("invocation.started", DRY_STARTED),
                ("invocation.finished", {**incident.FINISHED, "reason": "DryRun"}),
            ],
            "dry run of formulary/oom-raise@1.0.0 succeeded after 42 s",
        ),
        (
            [
                ("invocation.requested", incident.REQUESTED),
                ("invocation.started", DRY_STARTED),
                ("invocation.finished", {**incident.FINISHED, "reason": "Degraded"}),
            ],
            "dry run of formulary/oom-raise@1.0.0 succeeded after 42 s",
        ),
        (
            [
                (
                    "invocation.refused",
                    call(outcome="NoExecutor", arguments={"workflow_id": "oom-raise", "dry_run": True}),
                )
            ],
            "run of oom-raise refused",
        ),
    ],
)
def test_a_dry_run_does_not_replace_the_choice(run: list[tuple[str, Any]], outcome: str) -> None:
    happened = [("search", incident.SEARCH), ("selection", incident.SELECTION), *run]
    told = story(*((float(second), *event) for second, event in enumerate(happened)))
    assert [said.title for said in told.outcomes] == [
        "chose formulary/oom-raise@1.0.0; nothing was run for real",
        outcome,
    ]


def test_a_real_run_beside_a_dry_run_replaces_the_choice() -> None:
    real = {**incident.REQUESTED, "invocation_id": "inv-real"}
    told = story(
        (0, "selection", incident.SELECTION),
        (1, "invocation.requested", DRY),
        (2, "invocation.requested", real),
        (3, "invocation.finished", {**incident.FINISHED, "invocation_id": "inv-real"}),
    )
    assert [said.title for said in told.outcomes] == [
        "asked to run formulary/oom-raise@1.0.0 as a dry run",
        "run of formulary/oom-raise@1.0.0 succeeded after 42 s",
    ]


def searched(search_id: str, *versions: str, returned: bool = True, **others: Any) -> tuple[str, Any]:
    found = [candidate(each, f"formulary/{each}@1.0.0", confidence=0.5, returned=returned) for each in versions]
    return "search", call(search_id=search_id, result={"candidates": found}, **others)


def selected(version_id: str, *, search_id: str = "", **result: Any) -> tuple[str, Any]:
    return "selection", call(search_id=search_id, result={"version_id": version_id, **result})


def started(version_id: str, *, search_id: str = "", run: str = incident.RUN) -> list[tuple[str, Any]]:
    requested = {**incident.REQUESTED, "invocation_id": run, "version_id": version_id, "search_id": search_id}
    return [("invocation.requested", requested), ("invocation.started", {**incident.STARTED, "invocation_id": run})]


@pytest.mark.parametrize(
    ("happened", "marked"),
    [
        # The named search, whatever the others returned.
        ([searched(FIRST, "a", "b"), searched(SECOND, "b", "a"), selected("a", search_id=FIRST)], {0: "a"}),
        ([searched(FIRST, "a", "b"), searched(SECOND, "b", "a"), selected("a", search_id=SECOND)], {1: "a"}),
        ([searched(FIRST, "a"), selected("a", search_id=FIRST), searched(SECOND, "a")], {0: "a"}),
        ([searched(FIRST, "a"), selected("a", search_id=SECOND)], {}),
        # No search is named: the last before it that returned the version.
        ([searched(FIRST, "a", "b"), searched(SECOND, "b", "a"), selected("a")], {1: "a"}),
        ([searched(FIRST, "a"), searched(SECOND, "b"), selected("a")], {0: "a"}),
        ([searched(FIRST, "a"), searched(SECOND, "a", returned=False), selected("a")], {0: "a"}),
        ([searched(FIRST, "a"), selected("a"), searched(SECOND, "a")], {0: "a"}),
        ([selected("a"), searched(FIRST, "a")], {}),
        # Two choices, each at its own search.
        (
            [
                searched(FIRST, "a", "b"),
                selected("b", search_id=FIRST),
                searched(SECOND, "a", "b"),
                selected("a", search_id=SECOND),
            ],
            {0: "b", 2: "a"},
        ),
        # A run belongs to the search that it names, else to the selection of its version, else to the last search.
        ([searched(FIRST, "a"), searched(SECOND, "a"), *started("a", search_id=FIRST)], {0: "a"}),
        ([searched(FIRST, "a"), searched(SECOND, "a"), *started("a")], {1: "a"}),
        (
            [searched(FIRST, "a"), searched(SECOND, "a"), selected("a", search_id=FIRST), *started("a")],
            {0: "a"},
        ),
    ],
)
def test_a_choice_is_marked_at_the_search_that_it_was_made_from(
    happened: list[tuple[str, Any]], marked: dict[int, str]
) -> None:
    told = story(*((float(second), *event) for second, event in enumerate(happened)))
    assert {
        number: line.text.removeprefix("formulary/").split("@")[0]
        for number, passage in enumerate(told.passages)
        for line in passage.description.lines
        if "(chosen" in line.text
    } == marked


@pytest.mark.parametrize(
    ("happened", "rank"),
    [
        (
            [searched(FIRST, "a", "b"), searched(SECOND, "b", "c", "a"), selected("a", search_id=FIRST)],
            "1 of 2 in the search that it names",
        ),
        ([searched(FIRST, "a", "b"), searched(SECOND, "b", "c", "a"), selected("a")], "3 of 3 in the search before"),
        ([searched(FIRST, "a"), searched(SECOND, "b"), selected("a")], "the search before did not find it"),
        (
            [searched(FIRST, "a"), searched(SECOND, "b"), selected("a", search_id=SECOND)],
            "the search that it names did not find it",
        ),
        (
            [searched(FIRST, "a"), searched(SECOND, outcome="Unavailable"), selected("a")],
            "1 of 1 in the search before",
        ),
        ([searched(FIRST, "a"), selected("a", search_id=SECOND)], ""),
        ([searched(FIRST, "a"), selected("a", search_id=FIRST, supported=False)], ""),
        ([selected("a")], ""),
    ],
)
def test_the_rank_of_a_choice_is_that_in_the_search_it_was_made_from(
    happened: list[tuple[str, Any]], rank: str
) -> None:
    told = story(*((float(second), *event) for second, event in enumerate(happened)))
    assert [line.text for line in told.passages[-1].description.lines if line.label == "rank"] == (
        [rank] if rank else []
    )


@pytest.mark.parametrize(
    ("happened", "chosen"),
    [
        ([("selection", incident.SELECTION)], True),
        ([("selection", {**incident.SELECTION, "result": {**incident.SELECTION["result"], "supported": True}})], True),
        ([("selection", UNSUPPORTED)], False),
        ([("selection", UNSUPPORTED), ("selection", incident.SELECTION)], True),
        ([("selection", {**incident.SELECTION, "outcome": "InvalidInput"})], False),
        ([("invocation.requested", incident.REQUESTED)], False),
        ([("invocation.requested", incident.REQUESTED), ("invocation.decided", incident.WAITS)], False),
        ([("invocation.requested", incident.REQUESTED), ("invocation.started", incident.STARTED)], True),
        (
            [
                ("invocation.requested", {**incident.REQUESTED, "dry_run": True}),
                ("invocation.started", {**incident.STARTED, "dry_run": True}),
                ("invocation.finished", {**incident.FINISHED, "reason": "DryRun"}),
            ],
            False,
        ),
        (
            [
                ("invocation.requested", {**incident.REQUESTED, "dry_run": True}),
                ("invocation.finished", {**incident.FINISHED, "reason": "DryRun"}),
            ],
            False,
        ),
        ([("invocation.refused", {"invocation_id": incident.RUN, "version_id": incident.CHOSEN})], False),
    ],
)
def test_chosen_is_what_was_selected_or_really_run(happened: list[tuple[str, Any]], chosen: bool) -> None:
    events = [("search", incident.SEARCH), *happened]
    told = story(*((float(second), *event) for second, event in enumerate(events)))
    marked = [line.text for line in told.passages[0].description.lines if "(chosen" in line.text]
    assert [text.split()[0] for text in marked] == (["formulary/oom-raise@1.0.0"] if chosen else [])


def test_a_choice_that_its_search_did_not_return_is_told_as_no_evidence() -> None:
    passage = story((0, "search", incident.SEARCH), (1, "selection", UNSUPPORTED)).passages[1]
    assert passage.description.tone is Tone.WAITING
    assert [(line.label, line.text) for line in passage.description.lines][-1] == (
        "evidence",
        "none: the search that it names did not return this version",
    )


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
        ("custom", "labels, sealed"),
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
    assert "\x1b" not in printed(story((0, "search", hostile)), monkeypatch)


@pytest.mark.parametrize("tool", TOOLS_BY_NAME)
def test_each_tool_has_words_for_its_event(tool: str) -> None:
    assert TOOLS_BY_NAME[tool].action in KINDS


@given(kind=st.sampled_from(sorted(KINDS)) | st.text(), payload=PAYLOADS)
def test_no_payload_makes_the_story_fall_over(kind: str, payload: Any) -> None:
    told = story((0, "search", incident.SEARCH), (1, kind, payload), (2, "invocation.finished", payload))
    stream = io.StringIO()
    show_story(told, findings=(), page=Page(stream))
    assert len(told.passages) == 3


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
