"""Which workflow a story calls chosen, at which search, and with which rank."""

from typing import Any

import pytest

from support import incident
from support.incident import UNSUPPORTED, call, candidate, story

FIRST, SECOND = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


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
