"""A selection is evidence only where the trail holds the search that it was made from.

What the event says of itself does not count: the role that records selections could say anything.
"""

from alembic import op

revision = "0037"
down_revision = "0036"

SERVER = "formulary_server"

STATEMENTS = [
    # Whether a search of this caller in this trace returned the version: the search that is named, else any of them.
    # `before` is the place of the selection in the trace, null for one that is about to be recorded.
    """
    create function formulary.search_supports(
        in_trace text, by_caller text, named uuid, version text, before bigint
    ) returns boolean
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select exists (
            select from (
                select body::jsonb -> 'payload' as payload from formulary.trace_event
                where trace_id = in_trace and kind = 'search' and caller = by_caller
                  and (named is null or search_id = named) and (before is null or seq < before)
            ) as searched
            where payload ->> 'outcome' = 'ok' and coalesce(payload #> '{result,candidates}', '[]')
                @> jsonb_build_array(jsonb_build_object('version_id', version, 'returned', true)))
    $$
    """,
    "revoke all on function formulary.search_supports(text, text, uuid, text, bigint) from public",
    f"grant execute on function formulary.search_supports(text, text, uuid, text, bigint) to {SERVER}",
    # As before, without selections that no such search supports.
    """
    create or replace function formulary.selection_of(in_trace text, version text)
    returns table (reasoned boolean, confidence double precision)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select length(trim(coalesce(payload -> 'arguments' ->> 'reasoning', ''))) > 0,
               (payload -> 'arguments' ->> 'confidence')::double precision
        from (
            select seq, caller, search_id, body::jsonb -> 'payload' as payload from formulary.trace_event
            where trace_id = in_trace and kind = 'selection'
        ) as chosen
        where payload -> 'result' ->> 'version_id' = version and payload ->> 'outcome' = 'ok'
          and coalesce(payload -> 'result' ->> 'supported', 'true') <> 'false'
          and formulary.search_supports(in_trace, caller, search_id, version, seq)
        order by seq desc limit 1
    $$
    """,
]


def upgrade() -> None:
    """Add the function; `selection_of` is replaced, its owner and rights stay."""
    for statement in STATEMENTS:
        op.execute(statement)
