"""Notices say what is listed and nothing else, once each, and no name in them is markup for their receiver."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.notifications.formats import message_of
from formulary_catalog.domain.notifications.notices import (
    Event,
    Notice,
    notice_of_halt,
    notices_of_answer,
    notices_of_change,
)
from formulary_catalog.domain.notifications.receivers import Format
from formulary_catalog.domain.runs.run import Invocation, Phase, Reason, RunTarget, Source

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
PRIVATE = "c4n4ry"
"""In everything that a notification must not hold."""
CONSOLE = "https://formulary.example"
HOSTILE = "<!channel> @all `*[x](http://evil.example)*` <@U1> #general & | \n"
SECRET = {"text": PRIVATE, PRIVATE: [PRIVATE], "severity": PRIVATE}

phases = st.sampled_from(Phase)
names = st.sampled_from(["checkout", HOSTILE, "", "x" * 5000, "\u202egnp", "\U0001f600" * 400])


def run(phase: Phase, reason: str, name: str, *, dry_run: bool = False, started: bool = True) -> Invocation:
    return Invocation(
        id="inv-" + "0" * 20,
        source=Source.SERVER,
        namespace=name,
        object_name=PRIVATE,
        object_uid=PRIVATE,
        workflow_namespace="formulary",
        workflow_name=name,
        workflow_version=name,
        version_id="wf_ver_" + "0" * 20,
        document=SECRET,
        input=SECRET,
        target=RunTarget(kind="Deployment", name=name, namespace="shop"),
        facts=SECRET,
        remediation_id=PRIVATE,
        analysis=PRIVATE,
        search_id=None,
        requester=name,
        timeout_seconds=60,
        idempotency_key=PRIVATE,
        trace_id="own-1",
        dry_run=dry_run,
        degraded=False,
        phase=phase,
        reason=reason,
        message=PRIVATE,
        decision={"message": PRIVATE, "gate": {"risks": [SECRET, {"severity": "high", "message": PRIVATE}]}},
        outputs=SECRET,
        manifest=SECRET,
        reference=SECRET,
        revision=1,
        created_at=NOON,
        started_at=NOON if started else None,
        finished_at=None,
        halted=PRIVATE,
        content={"digest": "sha256:" + "a" * 64, "steps": SECRET},
    )


runs = st.builds(
    run,
    phases,
    st.sampled_from([*Reason, PRIVATE]),
    names,
    dry_run=st.booleans(),
    started=st.booleans(),
)


def all_notices(before: Phase | None, changed: Invocation) -> list[Notice]:
    by = changed.requester
    return [
        *notices_of_change(before, changed),
        *notices_of_change(before, changed, again=True),
        *notices_of_answer(replace(changed, phase=Phase.AWAITING_APPROVAL), approved=True, by=by, digest=""),
        notice_of_halt(Halt(namespace=by, contract=PRIVATE, reason=PRIVATE, by=by, at=NOON, trace_id="own-2")),
    ]


@given(before=st.none() | phases, changed=runs, format=st.sampled_from(Format))
def test_no_notification_holds_input_labels_commands_outputs_or_what_somebody_wrote(
    before: Phase | None, changed: Invocation, format: Format
) -> None:
    for notice in all_notices(before, changed):
        kept = json.dumps(notice.model_dump(mode="json", exclude_defaults=True))
        again = Notice.model_validate_json(kept)
        content_type, body = message_of(again, format=format, at=NOON, console_url=CONSOLE)
        assert PRIVATE not in kept + body.decode()
        assert f"{CONSOLE}/console/" in body.decode()
        assert len(body) < 32 * 1024
        assert content_type == ("application/cloudevents+json" if format is Format.CLOUDEVENTS else "application/json")


@given(before=st.none() | phases, changed=runs)
def test_what_others_named_is_plain_text_for_a_chat(before: Phase | None, changed: Invocation) -> None:
    for notice in all_notices(before, changed):
        slack, teams, mattermost = (
            json.loads(message_of(notice, format=format, at=NOON, console_url=CONSOLE)[1])
            for format in (Format.SLACK, Format.TEAMS, Format.MATTERMOST)
        )
        link = slack["blocks"].pop()["text"]
        assert link["text"].startswith(f"<{CONSOLE}/console/")
        assert "mrkdwn" not in json.dumps(slack["blocks"])
        assert "<" not in slack["text"]
        card = teams["attachments"][0]["content"]
        assert {line["type"] for line in card["body"]} == {"RichTextBlock"}
        attachment = mattermost["attachments"][0]
        texts = [mattermost["text"], attachment["fallback"], *(field["value"] for field in attachment["fields"])]
        for text in texts:
            outside_code = "".join(text.split("`")[::2])
            assert not set("<>@*[]#|_") & set(outside_code)


@given(before=st.none() | phases, changed=runs)
def test_an_event_is_of_a_real_run_that_is_somewhere_else_now(before: Phase | None, changed: Invocation) -> None:
    events = [notice.event for notice in notices_of_change(before, changed)]
    if changed.dry_run or changed.phase is before:
        assert events == []
    elif changed.phase is Phase.AWAITING_APPROVAL:
        assert events == [Event.WAITING, Event.REMINDER]
    elif before is None or changed.phase in (Phase.PENDING, Phase.RUNNING, Phase.SUCCEEDED, Phase.CANCELLED):
        assert events == []
    else:
        expected = Event.HALTED if changed.phase is Phase.HALTED else Event.FAILED
        assert events == ([] if changed.reason == Reason.REJECTED else [expected])


def test_a_reminder_is_due_before_the_run_expires_and_has_an_id_of_its_own() -> None:
    waiting, reminder = notices_of_change(None, run(Phase.AWAITING_APPROVAL, "AwaitingApproval", "restart"))
    assert waiting.due_at is None
    assert reminder.due_at == NOON + timedelta(hours=22)
    assert (waiting.id, reminder.id) == ("inv-" + "0" * 20 + ".waiting", "inv-" + "0" * 20 + ".reminder")
    again = notices_of_change(
        Phase.AWAITING_APPROVAL, run(Phase.AWAITING_APPROVAL, "AwaitingApproval", "restart"), again=True
    )
    assert [notice.id for notice in again] == [f"{waiting.id}.{'a' * 12}", reminder.id]


@pytest.mark.parametrize(
    ("by", "digest", "phase"),
    [
        ("unknown (no admission webhook reported the user)", "", Phase.AWAITING_APPROVAL),
        ("ada", "sha256:of-something-else", Phase.AWAITING_APPROVAL),
        ("ada", "", Phase.RUNNING),
    ],
)
def test_an_answer_that_does_not_count_is_no_decision(by: str, digest: str, phase: Phase) -> None:
    answered = run(phase, "AwaitingApproval", "restart")
    assert notices_of_answer(answered, approved=True, by=by, digest=digest) == []
