"""A history for a database: incidents with their traces, runs and contexts, and what people have read since.

`bench_console` measures pages on it. Every event is written through the functions that write real ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg

from formulary_catalog.domain.audit.sealing import KeyedDigest, seal
from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.store.audit.checkpoints import CheckpointStore
from formulary_catalog.store.audit.sealed import KEY
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from support.incident import HAPPENED, SEARCH
from support.runs import KEYS, request

EVENTS = 100_000
NAMESPACES = 50
RARE = "team-rare"
"""A namespace with one incident in a thousand: a caller who may read it alone has most to skip."""
LONG = "rr-bench-long"
"""A trace that is longer than what is read at once."""
_LONG_EVENTS = 3_000
_SEARCHES_EACH = 4
"""Searches of an incident besides those of its story."""
_READING_EACH = 6
"""Traces of reading for each incident: lists that people looked at, pages that refresh themselves."""
_BETWEEN_CHECKPOINTS = 10
"""Incidents: a checkpoint is written every minute in which something happens."""
_BETWEEN_ANALYZE = 50 * _BETWEEN_CHECKPOINTS
_APPEND = "select from formulary.append_sealed($1, $2, $3, $4, $5, $6)"
_APPEND_READING = "select from formulary.append_trace($1, $2, $3)"
_RUNS = """
insert into formulary.invocation
select (jsonb_populate_record(run, jsonb_build_object(
    'id', 'inv-' || lpad(place::text, 20, '0'), 'object_name', 'inv-' || place, 'nonce', md5(place::text),
    'trace_id', made.trace, 'remediation_id', made.trace, 'namespace', made.namespace, 'idempotency_key', '',
    'phase', case when place % 100 = 0 then 'AwaitingApproval' when place % 5 = 0 then 'Failed' else 'Succeeded' end,
    'created_at', clock_timestamp() - make_interval(mins => place::int),
    'started_at', clock_timestamp() - make_interval(mins => place::int - 1),
    'finished_at', clock_timestamp() - make_interval(mins => place::int - 2)
))).*
from formulary.invocation as run, unnest($2::text[], $3::text[]) with ordinality as made (trace, namespace, place)
where run.id = $1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What was written."""

    incidents: int
    events: int


async def write_history(dsn: str, *, events: int = EVENTS) -> History:
    """Write a history of some `events` into a migrated database."""
    incidents = max(1, (events - _LONG_EVENTS) // (len(HAPPENED) + _SEARCHES_EACH + _READING_EACH))
    contexts = [_context(number) for number in range(incidents)]
    owner = await asyncpg.connect(dsn)
    try:
        digest = KeyedDigest(await owner.fetchval(KEY))
        async with Database.opened(dsn, role=Role.WRITER, size=2, deadline=60) as writing:
            checkpoints, writer = CheckpointStore(writing), ContextWriter(writing)
            for start in range(0, incidents, _BETWEEN_CHECKPOINTS):
                some = contexts[start : start + _BETWEEN_CHECKPOINTS]
                await owner.executemany(_APPEND, [row for context in some for row in _incident(context, digest)])
                await owner.executemany(_APPEND_READING, [row for context in some for row in _reading(context)])
                await checkpoints.checkpoint(None)
                if start % _BETWEEN_ANALYZE == 0:  # plans of an empty table read all of it for every event
                    await owner.execute("analyze formulary.trace_head")
            long = RequestContext(namespace="team-000", name="long", remediation_id=LONG)
            rows = (_row(long, "search", SEARCH, digest) for _ in range(_LONG_EVENTS))
            await owner.executemany(_APPEND, list(rows))
            for context in (*contexts, long):
                await writer.save(context)
            run = (await RunWriter(writing, shared_namespace="formulary", keys=KEYS).submit(request())).invocation
        traces = [context.remediation_id for context in contexts]
        await owner.execute(_RUNS, run.id, traces, [context.namespace for context in contexts])
        await owner.execute("analyze")
        total = await owner.fetchval("select count(*) from formulary.trace_event")
    finally:
        await owner.close()
    return History(incidents=incidents, events=total)


def _context(number: int) -> RequestContext:
    namespace = RARE if number % 1000 == 0 else f"team-{number % NAMESPACES:03d}"
    return RequestContext(
        namespace=namespace,
        name=f"oom-{number}",
        remediation_id=f"rr-bench-{number}",
        environment="production",
        priority="P1",
        severity="critical",
        signal_name="OOMKilled",
        target_namespace=namespace,
        target_kind="Deployment",
        target_name=f"checkout-{number}",
        custom_labels={"team": ("payments",)},
    )


def _incident(context: RequestContext, digest: KeyedDigest) -> Iterator[tuple[str, ...]]:
    for kind, payload in (*[("search", SEARCH)] * _SEARCHES_EACH, *((kind, said) for _, kind, said in HAPPENED)):
        yield _row(context, kind, payload, digest)


def _row(context: RequestContext, kind: str, payload: Mapping[str, Any], digest: KeyedDigest) -> tuple[str, ...]:
    sealed = seal(context, strict_keys=frozenset())
    assert sealed is not None
    said = {**payload, "analysis": f"{context.namespace}/{context.name}", "remediation_id": context.remediation_id}
    signed = digest.of(sealed.content)
    return (
        context.remediation_id,
        kind,
        canonical_json({**said, "sealed": signed}),
        signed,
        sealed.namespace,
        sealed.content,
    )


def _reading(context: RequestContext) -> Iterator[tuple[str, ...]]:
    for number in range(_READING_EACH):
        trace = f"tr_{context.name}-{number}"
        yield trace, "read.approvals", canonical_json({"caller": "alice", "outcome": "ok", "result": {"total": 3}})
