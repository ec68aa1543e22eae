"""A selection is evidence only if the search that it names returned the version that was chosen."""

from alembic import op

revision = "0010"
down_revision = "0009"

SERVER = "formulary_server"
WRITER = "formulary_writer"

STATEMENTS = [
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


def upgrade() -> None:
    """Add the one function and replace the other."""
    for statement in STATEMENTS:
        op.execute(statement)
