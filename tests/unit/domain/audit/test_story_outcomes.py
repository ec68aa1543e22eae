"""How far a story says that an incident got, and with which runs."""

from typing import Any

import pytest

from formulary_catalog.domain.audit.wording import Tone
from support import incident
from support.incident import UNSUPPORTED, call, story

DRY = {**incident.REQUESTED, "dry_run": True}
DRY_STARTED = {**incident.STARTED, "dry_run": True}


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
            "run of formulary/oom-raise@1.0.0: dry run allowed; a real run needs an approval",
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
