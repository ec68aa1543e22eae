"""Which change of a run is a notification, and what it says: a pure function of the run before and after.

`store/notifications` keeps a notice in the transaction of the change that it reports. Only what `Notice` lists leaves:
names of objects and people, states and times. Inputs, labels, commands, outputs and free text are no part of it.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.runs.admission_decision import APPROVAL_HOURS
from formulary_catalog.domain.runs.card import decided_risk
from formulary_catalog.domain.runs.outcome import Outcome
from formulary_catalog.domain.runs.run import UNPROVEN_USERS, Invocation, Phase, Reason, true_state
from formulary_catalog.domain.text import shortened
from formulary_catalog.domain.visible import visible

REMINDER_HOURS = 2
"""So long before a waiting run expires people are reminded of it."""
EXPIRED = "expired"
"""State of a run that nobody approved in time."""
_LONGEST = 320
"""Of a text, in characters: more than the names of a namespace, a kind and an object."""
_DIGEST = 12

Text = Annotated[str, AfterValidator(lambda text: shortened(visible(text), limit=_LONGEST))]


class Event(StrEnum):
    """What people are notified of."""

    WAITING = "waiting"
    REMINDER = "reminder"
    DECIDED = "decided"
    FAILED = "failed"
    HALTED = "halted"
    RELAPSED = "relapsed"

    @property
    def asks(self) -> bool:
        """Whether it asks a person for a decision, and is not sent once there is one."""
        return self in (Event.WAITING, Event.REMINDER)


class Notice(BaseModel):
    """One notification, the same for each receiver. `subject` is the id of a run, or the trace of a halt.

    `id` is the same however often it is sent. `due_at`: not before; None for at once.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    event: Event
    subject: str
    trace_id: Text
    namespace: Text = ""
    workflow: Text = ""
    version: Text = ""
    target: Text = ""
    risk: Text = ""
    state: Text = ""
    reason: Text = ""
    requested_by: Text = ""
    decided_by: Text = ""
    waits_until: Text = ""
    due_at: datetime | None = Field(default=None, exclude=True)

    @property
    def is_of_run(self) -> bool:
        """Whether its subject is a run; else it is a halt."""
        return bool(self.workflow)


def notices_of_change(before: Phase | None, run: Invocation, *, again: bool = False) -> list[Notice]:
    """What is sent because a run is as it is now; `before` is None for one that was just asked for.

    `again`: what a waiting run would run has changed, so that an approval of it does not count any more.
    """
    if not run.runs_for_real or (run.phase is before and not again):
        return []
    if run.phase is Phase.AWAITING_APPROVAL:
        return _asking(run, content=run.content_digest if again else "")
    # Who asked for it has the answer already; who rejected it has been named.
    if before is None or run.reason == Reason.REJECTED:
        return []
    if run.phase is Phase.HALTED:
        return [_of_run(run, Event.HALTED)]
    if run.phase is Phase.TIMED_OUT and before is Phase.AWAITING_APPROVAL:
        return [_of_run(run, Event.FAILED, state=EXPIRED)]
    return [_of_run(run, Event.FAILED)] if run.phase in (Phase.FAILED, Phase.TIMED_OUT) else []


def notices_of_answer(run: Invocation, *, approved: bool, by: str, digest: str) -> list[Notice]:
    """What is sent because a person has answered; nothing where the answer does not count, or comes too late.

    `digest` is that of the content that was approved.
    """
    counts = not approved or (by not in UNPROVEN_USERS and digest in ("", run.content_digest))
    if run.phase is not Phase.AWAITING_APPROVAL or not counts:
        return []
    said = "approved" if approved else "rejected"
    return [_of_run(run, Event.DECIDED, content=digest, answer=said, state=said, decided_by=by)]


def notices_of_outcome(run: Invocation) -> list[Notice]:
    """What is sent because it was decided whether a run helped: only that the problem is back takes a person again."""
    return [_of_run(run, Event.RELAPSED)] if run.outcome == Outcome.RELAPSED else []


def notice_of_halt(halt: Halt) -> Notice:
    """What is sent because a halt has begun; the runs that it ends have notices of their own."""
    return Notice(
        id=_id(halt.trace_id, Event.HALTED),
        event=Event.HALTED,
        subject=halt.trace_id,
        trace_id=halt.trace_id,
        namespace=halt.namespace,
        decided_by=halt.by,
    )


def _asking(run: Invocation, *, content: str) -> list[Notice]:
    until = run.created_at + timedelta(hours=APPROVAL_HOURS)
    waiting = _of_run(run, Event.WAITING, content=content, waits_until=moment(until))
    reminder = {
        "id": _id(run.id, Event.REMINDER),
        "event": Event.REMINDER,
        "due_at": until - timedelta(hours=REMINDER_HOURS),
    }
    return [waiting, waiting.model_copy(update=reminder)]


def _of_run(run: Invocation, event: Event, *, content: str = "", answer: str = "", **more: str) -> Notice:
    state = true_state(run.phase, dry=False, started=run.started_at is not None, outcome=run.outcome)
    return Notice(
        **{
            "id": _id(run.id, event, content, answer),
            "event": event,
            "subject": run.id,
            "trace_id": run.trace_id,
            "namespace": run.namespace,
            "workflow": f"{run.workflow_namespace}/{run.workflow_name}",
            "version": run.workflow_version,
            "target": str(run.target),
            "risk": decided_risk(run),
            "state": state,
            "reason": _reason(run.reason),
            "requested_by": run.shown_requester,
            **more,
        }
    )


def _id(subject: str, event: Event, content: str = "", answer: str = "") -> str:
    return ".".join(filter(None, [subject, event, content.removeprefix("sha256:")[:_DIGEST], answer]))


def _reason(reason: str) -> str:
    """The reason, if it is one of ours: an engine may report any text."""
    return reason if reason in frozenset(Reason) else Reason.RUN_FAILED
