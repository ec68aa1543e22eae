"""Counted as chosen is only what the named search returned, as in the trace's story."""

from alembic import op

revision = "0032"
down_revision = "0031"

_CHOICE = """kind = 'selection' and coalesce(body::jsonb #>> '{payload,result,supported}', 'true') <> 'false'"""
"""An event that is a choice. Events of before do not say whether a search returned it, and count as they did."""

FUNCTIONS = [
    # As before, without choices that are recorded as unsupported.
    f"""
    create or replace function formulary.use_of(
        versions text[], namespaces text[], by_caller text, incident text, since timestamptz,
        out first bigint, out chosen bigint
    )
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select count(*) filter (where kind = 'search'), count(*) filter (where {_CHOICE})
        from formulary.trace_event
        where kind in ('search', 'selection') and facts ->> 'version_id' = any (versions) and at >= since
          and facts ->> 'outcome' = 'ok' and formulary.counts_for(trace_event, namespaces, by_caller, incident)
    $$
    """,
    f"""
    create or replace function formulary.uses_of_workflows(namespaces text[], by_caller text, since timestamptz)
    returns table (version_id text, found bigint, first bigint, chosen bigint)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        with counted as materialized (
            select kind, found, facts ->> 'version_id' as version_id from formulary.trace_event
            where kind in ('search', 'selection') and (kind = 'search' or {_CHOICE}) and at >= since
              and facts ->> 'outcome' = 'ok' and facts ? 'version_id'
              and formulary.counts_for(trace_event, namespaces, by_caller, '')
        )
        select each.version_id, sum(each.found)::bigint, sum(each.first)::bigint, sum(each.chosen)::bigint from (
            -- Equal queries return equal lists: counted first, there are few to be taken apart.
            select returned.version_id, sum(list.times) as found, 0 as first, 0 as chosen
            from (
                select coalesce(counted.found, array[counted.version_id]) as found, count(*) as times
                from counted where counted.kind = 'search' group by 1
            ) as list cross join lateral unnest(list.found) as returned (version_id)
            group by 1
            union all
            select counted.version_id, 0, count(*) filter (where counted.kind = 'search'),
                   count(*) filter (where counted.kind = 'selection')
            from counted group by 1
        ) as each group by 1
    $$
    """,
]


def upgrade() -> None:
    """Replace the two functions that count choices."""
    for statement in FUNCTIONS:
        op.execute(statement)
