"""A standby that begins to lead: it queues what changed while nobody led, and ends if there is more to watch now."""

import asyncio
import itertools
from typing import cast

import pytest
from aiohttp import web

from formulary_catalog.errors import StartupError
from formulary_catalog.store.incident_sources import IncidentSourceWriter
from formulary_operator.reporting import Reporter
from formulary_operator.sources.reconciler import SourceReconciler
from formulary_operator.watch.queue import NOTED_SECONDS, ObjectKey, Priority, StandbyNotes, WorkQueue
from support.kube_clients import answered_by


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


@pytest.mark.parametrize("at_first", [404, 503])
async def test_a_kind_that_was_not_there_at_its_start_ends_it_when_it_leads(at_first: int) -> None:
    statuses = itertools.chain([at_first], itertools.repeat(200))

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({}, status=next(statuses))

    async with answered_by(answer) as client:
        sources = SourceReconciler(
            client=client,
            sources=cast("IncidentSourceWriter", None),
            reporter=cast("Reporter", None),
            queue=WorkQueue(),
            shared_namespace="",
            any_namespace="",
        )
        await sources.find_kinds()
        assert sources.kinds == ()

        with pytest.raises(StartupError, match="IncidentSource is there now"):
            await asyncio.wait_for(asyncio.gather(*sources.works()), timeout=5)
