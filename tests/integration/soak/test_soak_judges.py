"""What judges a soak finds what it is there to find."""

import asyncio
import json
from dataclasses import replace

import pytest
from soak import traffic
from soak.catalog import NAMES, incident, state
from soak.oracle import Oracle, Served, served
from soak.traffic import Answered, Call, Client, Refused, Tally
from soak.trail import Recorded
from soak.verdict import SLOW, failures, growth_problems, harm, refusal_problems, wrong_answers

from formulary_catalog.domain.workflows.matching import allowed

INCIDENT = incident(1)
DEMANDS = INCIDENT.demands(None)


def tell(oracle: Oracle, event: str, name: str, number: int, at: float) -> None:
    oracle.hear(json.dumps({"event": event, "name": name, "number": number, "at": at}))


def allowed_state() -> tuple[str, int, Served]:
    """A workflow and the number of a state in which the incident allows it, and the next one does not serve it."""
    for name in NAMES:
        for number in range(1, 30):
            found = served(name, number)
            if found is None or state(name, number + 1) is not None:
                continue
            oracle = Oracle()
            tell(oracle, "begun", name, number, 0.0)
            tell(oracle, "done", name, number, 1.0)
            if oracle.must_be_found(name, demands=DEMANDS, since=2.0, until=3.0):
                return name, number, found
    raise AssertionError("no such state")


def told() -> tuple[Oracle, str]:
    """An oracle of one workflow, served from 1 to 10, suspended after 11; and its version."""
    name, number, found = allowed_state()
    oracle = Oracle()
    for at, event in ((0.0, "begun"), (1.0, "done")):
        tell(oracle, event, name, number, at)
    for at, event in ((10.0, "begun"), (11.0, "done")):
        tell(oracle, event, name, number + 1, at)
    return oracle, found.version_id


def test_an_answer_may_hold_what_was_served_meanwhile_and_must_hold_what_was_served_throughout() -> None:
    oracle, version = told()

    def problem(versions: list[str], *, since: float, until: float) -> str:
        return oracle.problem(versions, total=len(versions), demands=DEMANDS, since=since, until=until)

    assert problem([version], since=2, until=3) == problem([version], since=9, until=12) == ""
    assert problem([], since=9, until=12) == problem([], since=0.5, until=0.7) == problem([], since=12, until=13) == ""
    assert problem([], since=2, until=3).startswith("left out")
    assert problem([version], since=12, until=13).startswith("returned what was not served")
    assert problem(["wf_ver_of_another"], since=2, until=3).startswith("returned what was not served")
    assert problem([version, version], since=2, until=3) == "returned a version twice"
    assert oracle.problem([version], total=2, demands=DEMANDS, since=2, until=3) == "counted 2 and returned 1"
    assert oracle.problem([], total=1, demands=DEMANDS, since=9, until=12) == "counted 1 and returned 0"


def test_an_answer_about_one_workflow_holds_one_version_of_the_one_that_was_asked_for() -> None:
    oracle, version = told()
    name, _, _ = allowed_state()
    other = next(each for each in NAMES if each != name)
    for at, event in ((0.0, "begun"), (1.0, "done")):
        tell(oracle, event, other, 0, at)

    def problem(versions: list[str], *, of: str) -> str:
        return oracle.problem(versions, total=None, demands=DEMANDS, since=2, until=3, name=of)

    assert problem([version], of=name) == ""
    assert problem([version], of=other).startswith("returned what was not served")
    assert problem([], of=name) == "is about 0 workflows"


def test_two_versions_of_a_workflow_are_never_in_one_answer() -> None:
    name, first, second = next(
        (name, first, second)
        for name in NAMES
        for number in range(30)
        if (first := served(name, number)) is not None
        and (second := served(name, number + 1)) is not None
        and all(allowed(each.labels, DEMANDS) for each in (first, second))
    )
    number = next(number for number in range(30) if served(name, number) == first)
    oracle = Oracle()
    for at, event, edit in ((0, "begun", 0), (1, "done", 0), (10, "begun", 1), (11, "done", 1)):
        tell(oracle, event, name, number + edit, at)

    def problem(versions: list[str]) -> str:
        return oracle.problem(versions, total=len(versions), demands=DEMANDS, since=9, until=12)

    assert problem([first.version_id]) == problem([second.version_id]) == ""
    assert problem([first.version_id, second.version_id]).startswith("returned two versions")


def test_a_selection_records_the_version_that_was_chosen_and_finds_it_unless_its_workflow_is_suspended() -> None:
    oracle, version = told()

    def wrong(*versions: str, since: float) -> list[str]:
        call = Call(kind="selection", incident=INCIDENT, since=since, until=since + 2, version=version)
        gone = Refused(call=call, message=f"'{version}' is not found among the workflows allowed here", unclean="")
        if versions:
            return wrong_answers(Tally(answered=[Answered(call=call, versions=versions)]), oracle)
        return wrong_answers(Tally(refused=[gone]), oracle)

    assert wrong(version, since=5) == wrong(version, since=9) == []
    assert wrong("wf_ver_of_another", since=5)[0].startswith(f"{version} was chosen")
    assert wrong(version, since=20) == [f"{version} was found, but is suspended"]
    assert wrong(since=5) == [f"{version} was not found, but is there"]
    assert wrong(since=9) == wrong(since=20) == []


def test_details_of_a_workflow_that_is_served_throughout_are_found() -> None:
    oracle, _ = told()
    name, _, _ = allowed_state()

    def wrong(since: float) -> list[str]:
        call = Call(kind="details", incident=INCIDENT, since=since, until=since + 1, name=name)
        return wrong_answers(
            Tally(refused=[Refused(call=call, message="it is not found among the workflows allowed here", unclean="")]),
            oracle,
        )

    assert wrong(2) == [f"{name} was not found, but is there"]
    assert wrong(10) == wrong(20) == []


async def test_a_call_that_is_never_answered_is_given_up_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "_PATIENCE_SECONDS", 0.05)
    tally = Tally()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await Client(1, incident=INCIDENT, url=url, tally=tally).work(lambda: bool(tally.refused))

    problems = [problem.partition(":")[0] for problem in refusal_problems(tally, [])]
    assert sorted(set(problems)) == ["refused without a fault", "told badly"]


def test_what_the_incident_does_not_allow_is_wrong() -> None:
    oracle, version = told()
    elsewhere = replace(DEMANDS, values={**DEMANDS.values, "environment": frozenset({"elsewhere"})})

    assert oracle.problem([version], total=1, demands=elsewhere, since=2, until=3).startswith("returned what")


def answered(kind: str, *versions: str, search_id: str = "", mode: str = "hybrid", until: float = 1.0) -> Answered:
    call = Call(kind=kind, incident=INCIDENT, since=until - 1, until=until)
    return Answered(call=call, versions=versions, search_id=search_id, mode=mode)


def test_an_answer_that_is_not_in_the_trail_as_it_was_given_is_lost() -> None:
    trail, of = Recorded(), INCIDENT.context.remediation_id
    hits = [{"version_id": "a", "returned": True}, {"version_id": "b", "returned": False}]
    for kind, search_id, result in (
        ("search", "s1", {"candidates": hits}),
        ("selection", "s1", {"version_id": "a"}),
        ("details", "", {"version_id": "a"}),
    ):
        trail.add(trace_id=of, kind=kind, search_id=search_id, payload={"outcome": "ok", "result": result})
    trail.add(trace_id=of, kind="search", search_id="s2", payload={"outcome": "Unavailable", "result": {}})
    kept = [
        answered("search", "a", search_id="s1"),
        answered("selection", "a", search_id="s1"),
        answered("details", "a"),
    ]

    assert trail.lost(kept) == []
    for lost in (
        answered("search", "a", "b", search_id="s1"),
        answered("search", search_id="s2"),
        answered("selection", "b", search_id="s1"),
        answered("details", "a"),
    ):
        assert len(trail.lost([*kept, lost])) == 1


def refused(message: str, *, since: float, until: float, unclean: str = "") -> Refused:
    call = Call(kind="search", incident=INCIDENT, since=since, until=until)
    return Refused(call=call, message=message, unclean=unclean)


def test_refusals_are_excused_by_a_fault_alone_and_for_a_while_after_it() -> None:
    tally = Tally(
        answered=[
            answered("search", mode="lexical", until=105),
            answered("search", mode="lexical", until=300),
            Answered(call=Call(kind="details", incident=INCIDENT, since=400, until=411), versions=("a",)),
        ],
        refused=[
            refused("away; retry", since=101, until=102),
            refused("away; retry", since=109, until=110),
            refused("away; retry", since=200, until=201),
            refused("away; retry", since=101, until=112),
            refused("away; retry", since=109.5, until=110),
            refused("boom", since=101, until=102, unclean="HTTP 500: boom"),
            refused("'x' is not found among the workflows allowed here; retry", since=500, until=501),
        ],
    )
    done = harm("database away", begun=100, healed=104, tally=tally)
    problems = refusal_problems(tally, [done])

    assert len(failures(tally)) == 6
    assert (done.refused, done.words_only, done.recovery, done.slowest_refusal) == (4, 1, 5, 11)
    assert [problem.partition(":")[0] for problem in problems] == [
        "refused without a fault",
        "refused without a fault",
        "told badly",
        "refused late",
        "answered late",
        "ranked otherwise without a fault",
    ]


def test_a_slow_database_is_excused_once_for_a_hundred_answers_and_no_other_refusal_is() -> None:
    def problems(message: str, *, answers: int) -> list[str]:
        refusals = [refused(message, since=number, until=number + 2) for number in range(2)]
        return refusal_problems(Tally(answered=[answered("search")] * answers, refused=refusals), [])

    assert problems(SLOW, answers=200) == []
    assert problems(SLOW, answers=199) == [f"refused without a fault: {SLOW}"] * 2
    assert problems("boom", answers=200) == ["refused without a fault: boom"] * 2


def test_a_process_that_goes_on_growing_once_it_is_warm_is_found() -> None:
    def samples(*, minutes: int, megabytes_per_hour: float, warming_up: float = 0) -> list[tuple[float, int]]:
        return [
            (at, int(1024**2 * (200 + min(at / 600, 1) * warming_up + megabytes_per_hour * at / 3600)))
            for at in range(0, minutes * 60, 10)
        ]

    assert growth_problems(samples(minutes=30, megabytes_per_hour=10, warming_up=50)) == []
    assert growth_problems(samples(minutes=30, megabytes_per_hour=40)) == ["the server grows by 40 MB an hour"]
    assert growth_problems(samples(minutes=2, megabytes_per_hour=100)) == []
    assert growth_problems(samples(minutes=2, megabytes_per_hour=4000))[0].startswith("the server grew by")
