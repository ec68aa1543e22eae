"""What was asked and found, to compare with what the catalog covers: by query, by signal, by workflow."""

from alembic import op

revision = "0024"
down_revision = "0023"

SERVER = "formulary_server"

FACTS = [
    # The workflows that a search returned. Null for what is no search, and for searches of before.
    'alter table formulary.trace_event add column found text[] collate "C"',
    # As before, with the query, the word of it that may name a signal, and what was returned.
    r"""
    create or replace function formulary.note_facts() returns trigger
    language plpgsql set search_path = formulary, pg_temp as $$
    declare
        event jsonb := new.body;
        payload jsonb := event -> 'payload';
        candidates jsonb := payload #> '{result,candidates}';
        query text := left(payload #>> '{arguments,query}', 400);
    begin
        new.at := event ->> 'at';
        new.facts := jsonb_strip_nulls(jsonb_build_object(
            'outcome', payload ->> 'outcome',
            'mode', payload ->> 'mode',
            'remediation_id', payload ->> 'remediation_id',
            'namespace', split_part(coalesce(payload ->> 'analysis', ''), '/', 1),
            'version_id', coalesce(candidates #>> '{0,version_id}', payload #>> '{result,version_id}'),
            'confidence', candidates #> '{0,confidence}',
            'query', query,
            'signal', lower(rtrim(substring(query from '^\s*(\S+)'), ',:;'))));
        if new.kind = 'search' and jsonb_typeof(candidates) = 'array' then
            new.found := array(
                select candidate ->> 'version_id' from jsonb_array_elements(candidates) as candidate
                where candidate -> 'returned' = 'true'::jsonb);
        end if;
        return new;
    end
    $$
    """,
]

FUNCTIONS = [
    # Queries of searches that ended with nothing or with a first hit that is less sure than that, the most frequent
    # first. What counts for a caller is decided by `counts_for`, as in what browsing counts.
    """
    create function formulary.weak_queries(
        namespaces text[], by_caller text, since timestamptz, sure double precision, at_most integer
    ) returns table (query text, times bigint, unanswered bigint, best double precision)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select coalesce(facts ->> 'query', left(body::jsonb #>> '{payload,arguments,query}', 400)), count(*),
               count(*) filter (where not facts ? 'version_id'), max((facts -> 'confidence')::double precision)
        from formulary.trace_event
        where kind = 'search' and at >= since and facts ->> 'outcome' = 'ok'
          and (not facts ? 'version_id' or (facts -> 'confidence')::double precision < sure)
          and formulary.counts_for(trace_event, namespaces, by_caller, '')
        group by 1 order by 2 desc, 1 limit at_most
    $$
    """,
    # How often these signals, in lower case, were asked for, and how many of the incidents that are known have them.
    """
    create function formulary.demand_for(
        signals text[], namespaces text[], by_caller text, since timestamptz
    ) returns table (signal text, asked bigint, fired bigint)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select counted.signal, sum(counted.asked)::bigint, sum(counted.fired)::bigint from (
            select facts ->> 'signal' as signal, count(*) as asked, 0 as fired
            from formulary.trace_event
            where kind = 'search' and at >= since and facts ->> 'outcome' = 'ok'
              and facts ->> 'signal' = any (signals)
              and formulary.counts_for(trace_event, namespaces, by_caller, '')
            group by 1
            union all
            select lower(context ->> 'signal_name'), 0, count(*)
            from formulary.request_context
            where lower(context ->> 'signal_name') = any (signals)
              and (demand_for.namespaces is null or namespace = any (demand_for.namespaces))
            group by 1
        ) as counted group by 1
    $$
    """,
    # How often each version was found, was first, and was chosen. Searches of before count their first alone.
    """
    create function formulary.uses_of_workflows(namespaces text[], by_caller text, since timestamptz)
    returns table (version_id text, found bigint, first bigint, chosen bigint)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        with counted as materialized (
            select kind, found, facts ->> 'version_id' as version_id from formulary.trace_event
            where kind in ('search', 'selection') and at >= since and facts ->> 'outcome' = 'ok'
              and facts ? 'version_id' and formulary.counts_for(trace_event, namespaces, by_caller, '')
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
    *(
        statement
        for function in (
            "weak_queries(text[], text, timestamptz, double precision, integer)",
            "demand_for(text[], text[], text, timestamptz)",
            "uses_of_workflows(text[], text, timestamptz)",
        )
        for statement in (
            f"revoke all on function formulary.{function} from public",
            f"grant execute on function formulary.{function} to {SERVER}",
        )
    ),
]


def upgrade() -> None:
    """Add to what is there; `note_facts` is replaced."""
    for statement in (*FACTS, *FUNCTIONS):
        op.execute(statement)
