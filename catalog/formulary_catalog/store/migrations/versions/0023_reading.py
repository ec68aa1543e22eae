"""What people read of incidents, traces and runs: pages, by the namespaces in which the caller may read them."""

from alembic import op

revision = "0023"
down_revision = "0022"

SERVER = "formulary_server"

INDEXES = [
    "create index trace_head_changed on formulary.trace_head (changed_at, trace_id)",
    "create index sealed_constraints_namespace on formulary.sealed_constraints (namespace)",
    "create index invocation_trace on formulary.invocation (trace_id, created_at)",
    "create index invocation_created on formulary.invocation (created_at, id)",
]

READING = [
    # Incidents of the namespaces that the session names; `*` is all. What they demand is sealed elsewhere as well.
    f"""
    create policy server_reads on formulary.request_context for select to {SERVER}
    using (namespace = any ((select string_to_array(current_setting('formulary.incidents_read', true), ','))::text[])
           or (select current_setting('formulary.incidents_read', true)) = '*')
    """,
    # Functions that run as the owner look; forced row-level security holds for the owner as well.
    "create policy owner_looks on formulary.request_context for select to current_user using (true)",
    "create policy owner_looks on formulary.governance_contract for select to current_user using (true)",
    # The namespaces that anything is known of, for the server to ask about the caller's rights in each.
    """
    create function formulary.known_namespaces(at_most integer) returns setof text
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select namespace from (
            select namespace from request_context
            union select namespace from sealed_constraints
            union select namespace from invocation
            union select namespace from governance_contract
            union select namespace from tenant
        ) as known where namespace <> '' order by namespace limit at_most
    $$
    """,
    # Whose right it takes to read a trace: the namespaces of its incidents, else those of its runs. None for a trace
    # that belongs to no namespace; an empty one for labels that somebody gave without an incident.
    """
    create function formulary.namespaces_of_trace(in_trace text) returns text[]
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select case when exists (select from sealed_constraints where trace_id = in_trace)
            then array(select distinct namespace from sealed_constraints where trace_id = in_trace order by 1)
            else array(select distinct namespace from invocation where trace_id = in_trace order by 1) end
    $$
    """,
    """
    create function formulary.trace_of_search(wanted uuid) returns text
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select trace_id from trace_event where search_id = wanted and kind = 'search' limit 1
    $$
    """,
    # A page of traces that changed since a time, the newest first, after the row that a cursor names. `namespaces` are
    # those that the caller may read, null for all; one of them may be asked for. `phase` is that of the newest run, the
    # real ones first; empty without one. Reading leaves traces of its own, which tell nothing here.
    """
    create function formulary.traces_in(
        namespaces text[], in_namespace text, in_trace text, in_phases text[], since timestamptz,
        before timestamptz, before_trace text, at_most integer
    ) returns table (
        trace_id text, changed_at timestamptz, events bigint, held boolean, belongs_to text[], phase text,
        first_body text, first_kind text, last_kind text
    )
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select head.trace_id, head.changed_at, head.seq,
               exists (select from trace_hold as hold where hold.trace_id = head.trace_id and released_at is null),
               belongs.namespaces, coalesce(run.phase, ''), first.body, first.kind, last.kind
        from trace_head as head
        cross join lateral (select namespaces_of_trace(head.trace_id) as namespaces offset 0) as belongs
        cross join lateral (
            select event.body, event.kind from trace_event as event
            where event.trace_id = head.trace_id and event.month = head.month order by event.seq limit 1
        ) as first
        cross join lateral (
            select event.kind from trace_event as event
            where event.trace_id = head.trace_id and event.month = head.month order by event.seq desc limit 1
        ) as last
        left join lateral (
            select invocation.phase from invocation where invocation.trace_id = head.trace_id
            order by dry_run or degraded, created_at desc limit 1
        ) as run on true
        where head.changed_at >= since and (before is null or (head.changed_at, head.trace_id) < (before, before_trace))
          and in_trace in ('', head.trace_id) and (in_namespace = '' or in_namespace = any (belongs.namespaces))
          and (traces_in.namespaces is null
               or (cardinality(belongs.namespaces) > 0 and belongs.namespaces <@ traces_in.namespaces))
          and (in_phases is null or coalesce(run.phase, '') = any (in_phases))
          and not (head.trace_id like 'tr\\_%' and first.kind like 'read.%')
        order by head.changed_at desc, head.trace_id desc limit at_most
    $$
    """,
    *(
        statement
        for function in (
            "known_namespaces(integer)",
            "namespaces_of_trace(text)",
            "trace_of_search(uuid)",
            "traces_in(text[], text, text, text[], timestamptz, timestamptz, text, integer)",
        )
        for statement in (
            f"revoke all on function formulary.{function} from public",
            f"grant execute on function formulary.{function} to {SERVER}",
        )
    ),
]


def upgrade() -> None:
    """Add to what is there."""
    for statement in (*INDEXES, *READING):
        op.execute(statement)
