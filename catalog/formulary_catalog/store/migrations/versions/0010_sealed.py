"""What a search was narrowed by stays beside its trace, sealed; a selection is evidence only of what was returned."""

from alembic import op

revision = "0010"
down_revision = "0009"

SERVER = "formulary_server"
WRITER = "formulary_writer"

SELECTIONS = [
    # Null where the search is in `audit_event`: releases that wrote there kept no record of what was returned.
    """
    create function formulary.search_returned(wanted uuid, version text) returns boolean
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select coalesce(body::jsonb #> '{payload,result,candidates}', '[]')
            @> jsonb_build_array(jsonb_build_object('version_id', version, 'returned', true))
        from formulary.trace_event where search_id = wanted and kind = 'search'
        limit 1
    $$
    """,
    "revoke all on function formulary.search_returned(uuid, text) from public",
    f"grant execute on function formulary.search_returned(uuid, text) to {SERVER}",
    # As before, without selections that are recorded as unsupported. Older events do not say, and count as they did.
    """
    create or replace function formulary.selection_of(in_trace text, version text)
    returns table (reasoned boolean, confidence double precision)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select length(trim(coalesce(payload -> 'arguments' ->> 'reasoning', ''))) > 0,
               (payload -> 'arguments' ->> 'confidence')::double precision
        from (
            select seq, body::jsonb -> 'payload' as payload from formulary.trace_event
            where trace_id = in_trace and kind = 'selection'
        ) as chosen
        where payload -> 'result' ->> 'version_id' = version and payload ->> 'outcome' = 'ok'
          and coalesce(payload -> 'result' ->> 'supported', 'true') <> 'false'
        order by seq desc limit 1
    $$
    """,
]

SEALED = [
    # The key of all keyed digests. One row; it never changes, so that digests of today and of next year compare.
    """
    create table formulary.digest_key (
        key bytea not null,
        only_row boolean primary key default true check (only_row)
    )
    """,
    """
    insert into formulary.digest_key (key)
    values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())))
    """,
    f"grant select on formulary.digest_key to {SERVER}, {WRITER}",
    # What incidents demanded, custom labels included. A copy goes with its trace. No check: a failed one would put the
    # row into the log.
    """
    create table formulary.sealed_constraints (
        trace_id text collate "C" not null references formulary.trace_head on delete cascade,
        digest text collate "C" not null,
        namespace text collate "C" not null,
        content text not null,
        at timestamptz not null default clock_timestamp(),
        primary key (trace_id, digest)
    )
    """,
    """
    create trigger keep_rows before update on formulary.sealed_constraints
    for each row execute function formulary.refuse_trace_change()
    """,
    "alter table formulary.sealed_constraints enable row level security",
    "alter table formulary.sealed_constraints force row level security",
    # Readable are the copies of the trace that the session names, of incidents of the namespaces that it names: those
    # in which the caller may use incidents.
    f"""
    create policy named on formulary.sealed_constraints for select to {SERVER} using (
        trace_id = current_setting('formulary.trace', true)
        and namespace = any (nullif(current_setting('formulary.incident_namespaces', true), '')::text[]))
    """,
    f"grant select on formulary.sealed_constraints to {SERVER}",
    # Functions that run as the owner add and look; forced row-level security holds for the owner as well.
    "create policy owner_adds on formulary.sealed_constraints for insert to current_user with check (true)",
    "create policy owner_looks on formulary.sealed_constraints for select to current_user using (true)",
    """
    create function formulary.append_sealed(
        in_trace text, in_kind text, in_payload text, in_digest text, in_namespace text, in_content text,
        out seq bigint, out hash text, out at timestamptz
    )
    language plpgsql security definer set search_path = formulary, pg_temp as $$
    begin
        select event.seq, event.hash, event.at into seq, hash, at
        from append_trace(in_trace, in_kind, in_payload) as event;
        insert into sealed_constraints (trace_id, digest, namespace, content)
        values (in_trace, in_digest, in_namespace, in_content)
        on conflict do nothing;
    end
    $$
    """,
    "revoke all on function formulary.append_sealed(text, text, text, text, text, text) from public",
    f"grant execute on function formulary.append_sealed(text, text, text, text, text, text) to {SERVER}, {WRITER}",
    # Whose right it takes to read the copies of the trace that the session names.
    """
    create function formulary.sealed_namespaces(in_trace text) returns setof text
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select distinct namespace from formulary.sealed_constraints
        where trace_id = in_trace and in_trace = current_setting('formulary.trace', true)
        order by namespace
    $$
    """,
    "revoke all on function formulary.sealed_namespaces(text) from public",
    f"grant execute on function formulary.sealed_namespaces(text) to {SERVER}",
]


def upgrade() -> None:
    """Add to what is there; `selection_of` is replaced."""
    for statement in (*SELECTIONS, *SEALED):
        op.execute(statement)
