"""What a standby queues once it leads: what changed while nobody led, and not what the former leader has seen."""

import itertools

from formulary_operator.watch.queue import ObjectKey, Priority, WorkQueue
from formulary_operator.watch.standby import NOTED_SECONDS, StandbyNotes


def _key(name: str) -> ObjectKey:
    return ObjectKey("remediationworkflows", "shop", name)


def test_only_what_changed_shortly_before_is_queued_when_it_begins_to_lead_and_everything_after_that() -> None:
    queue: WorkQueue[ObjectKey] = WorkQueue()
    times = [0.0, 0.0, NOTED_SECONDS - 1, NOTED_SECONDS - 1, NOTED_SECONDS + 1]
    notes = StandbyNotes(queue, clock=itertools.chain(times, itertools.repeat(times[-1])).__next__)
    notes.changed(_key("seen"), Priority.CHANGED)
    notes.changed(_key("missed"), Priority.CHANGED)
    assert len(queue) == 0

    notes.lead()
    notes.changed(_key("later"), Priority.CHANGED)
    assert [name for name in ("seen", "missed", "later") if _key(name) in queue] == ["missed", "later"]

    notes.rest()
    notes.changed(_key("too-late"), Priority.CHANGED)
    assert _key("too-late") not in queue
