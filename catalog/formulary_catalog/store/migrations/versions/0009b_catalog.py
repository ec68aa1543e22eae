"""The catalog since the release of 0009: listings, relations, sketches, refused objects, alert rules, lists, counts."""

from alembic import op

revision = "0009b"
down_revision = "0009a"

SERVER = "formulary_server"
WRITER = "formulary_writer"
FEW = 2000
"""So many traces of a namespace, or with runs in a phase, are looked up; where there are more, the newest are tried."""
_CHOICE = """kind = 'selection' and coalesce(body::jsonb #>> '{payload,result,supported}', 'true') <> 'false'"""
"""An event that is a choice. Events of before do not say whether a search returned it, and count as they did."""

# Who migrates need not be who owns what there is: a superuser may.
AS_OWNER = """
do $$
begin
    execute format('set local role %I', (
        select pg_get_userbyid(relowner) from pg_class where oid = 'formulary.workflow_version'::regclass));
end
$$
"""
LOCKS = [
    "set local lock_timeout = '300ms'",
    """
    lock table formulary.tenant, formulary.workflow_version, formulary.workflow_search, formulary.request_context
    in access exclusive mode
    """,
]

TENANTS = [
    # Who has entered no tenant reads no name of one.
    "alter table formulary.tenant enable row level security",
    "alter table formulary.tenant force row level security",
    f"create policy writer on formulary.tenant to {WRITER} using (true) with check (true)",
    f"""
    create policy server on formulary.tenant for select to {SERVER}
    using (id = any ((select formulary.visible_tenants())::integer[]))
    """,
    # Functions that run as the owner look.
    "create policy owner_looks on formulary.tenant for select to current_user using (true)",
    # Before a session has entered, it sees no tenant: their numbers come from the owner. Two conditions, as in 0009.
    """
    create function formulary.tenants_of(namespaces text[]) returns text
    language plpgsql stable security definer set search_path = formulary, pg_temp as $$
    begin
        if namespaces is null then
            return (select string_agg(tenant.id::text, ',') from tenant);
        end if;
        return (select string_agg(tenant.id::text, ',') from tenant where tenant.namespace = any (namespaces));
    end
    $$
    """,
    "revoke all on function formulary.tenants_of(text[]) from public",
    f"grant execute on function formulary.tenants_of(text[]) to {SERVER}, {WRITER}",
    # Where a caller may list is asked before it enters anything.
    """
    create function formulary.namespaces_with_workflows(at_most integer) returns setof text
    language sql stable security definer set search_path = formulary, pg_temp as
    $$ select tenant.namespace from tenant order by tenant.namespace limit at_most $$
    """,
    "revoke all on function formulary.namespaces_with_workflows(integer) from public",
    f"grant execute on function formulary.namespaces_with_workflows(integer) to {SERVER}",
    """
    create or replace function formulary.enter(namespaces text[], signal_word text, folded_word text) returns boolean
    language plpgsql set search_path = formulary, pg_temp as $$
    begin
        perform set_config('formulary.tenants', coalesce(tenants_of(namespaces), ''), true);
        if folded_word = '' then
            return false;
        end if;
        return exists (
            select from formulary.workflow_search
            where signal_type = folded_word and signal_name = signal_word);
    end
    $$
    """,
]


def _said(*spellings: str) -> str:
    """A text of a manifest, in whichever spelling its author chose."""
    found = ", ".join(f"document #>> '{{spec,{spelling}}}'" for spelling in spellings)
    return f"coalesce({found}, '')"


def _column(text: str) -> str:
    return f'text collate "C" generated always as ({text}) stored'


COLUMNS = [
    # Generated, so that rows of before and of older releases have them too.
    f"""
    alter table formulary.workflow_version
    add column title {_column(_said("title"))},
    add column title_key {_column(f"lower(left({_said('title')}, 120))")},
    add column action_type {_column(_said("actionType", "action_type"))},
    add column action_key {_column(f"lower({_said('actionType', 'action_type')})")},
    add column risk_level {_column(_said("riskLevel", "risk_level"))}
    """,
    # Sketches: the signs of a vector's numbers, in an index that says which of many workflows are worth comparing. 48
    # bytes for the 1,536 of the vector.
    """
    alter table formulary.workflow_search
    add column sketch bit(384) generated always as (binary_quantize(emb)::bit(384)) stored
    """,
    "alter table formulary.workflow_search alter column sketch set storage plain",
    "drop index formulary.workflow_search_leading",
    """
    create index workflow_search_leading on formulary.workflow_search (tenant_id)
    include (version_id, model_id, sketch) where leading_row
    """,
]

RELATIONS = [
    # What a version says of others, by their names: what they mean depends on who asks.
    """
    create table formulary.workflow_relation (
        version_id text collate "C" not null references formulary.workflow_version on delete cascade,
        tenant_id integer not null references formulary.tenant,
        relation text collate "C" not null,
        namespace text collate "C" not null,
        name text collate "C" not null,
        primary key (version_id, relation, namespace, name)
    )
    """,
    "create index workflow_relation_name on formulary.workflow_relation (name)",
    # Declared relations, and names that stand in "when not to use". A name without a hyphen is a word like any other
    # there, so that it is no mention. An empty namespace was not given. A version that is named stands for its
    # workflow. A version id is kept as it is: which workflow it means may be known only later, so readers look it up.
    r"""
    create function formulary.relations_of(document jsonb)
    returns table (relation text, namespace text, name text)
    language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
        select distinct said.relation, coalesce(substring(said.named from '^([^/]+)/'), ''),
               substring(said.named from '[^/]+$')
        from (
            select link ->> 'relation' as relation,
                   regexp_replace(link ->> 'name', '@[0-9A-Za-z.+-]{1,128}$', '') as named
            from jsonb_array_elements(
                case jsonb_typeof(document #> '{spec,related}')
                when 'array' then document #> '{spec,related}' else '[]' end) as link
            union all
            select 'mentions', found[1]
            from regexp_matches(
                coalesce(document #>> '{spec,description,whenNotToUse}',
                         document #>> '{spec,description,when_not_to_use}', ''),
                '(?<![A-Za-z0-9_./-])((?:[a-z0-9-]+/)?[a-z0-9]+(?:[-.][a-z0-9]+)+|wf_ver_[0-9a-f]{20})(?![A-Za-z0-9_])',
                'g') as found
            where found[1] ~ '-|^wf_ver_'
        ) as said
        where said.relation in ('escalatesTo', 'supersedes', 'rollbackOf', 'requires', 'mentions')
          and said.named ~ '^(([a-z0-9-]{1,63}/)?[a-z0-9][a-z0-9.-]{0,252}|wf_ver_[0-9a-f]{20})$'
    $$
    """,
    """
    create function formulary.note_relations() returns trigger
    language plpgsql set search_path = formulary, pg_temp as $$
    begin
        insert into workflow_relation (version_id, tenant_id, relation, namespace, name)
        select new.version_id, new.tenant_id, said.* from relations_of(new.document) as said
        on conflict do nothing;
        return null;
    end
    $$
    """,
    # A version id stands for its content: what is there does not change.
    """
    create trigger note_relations after insert on formulary.workflow_version
    for each row execute function formulary.note_relations()
    """,
    "alter table formulary.workflow_relation enable row level security",
    "alter table formulary.workflow_relation force row level security",
    f"create policy writer on formulary.workflow_relation to {WRITER} using (true) with check (true)",
    f"""
    create policy server on formulary.workflow_relation for select to {SERVER}
    using (tenant_id = any ((select formulary.visible_tenants())::integer[]))
    """,
    f"grant select on formulary.workflow_relation to {SERVER}",
    f"grant select, insert, update, delete on formulary.workflow_relation to {WRITER}",
]

WORDS = [
    # The words of a workflow, with the tenant before each: the words of others cost a caller nothing. Its cost is what
    # keeps the planner from reading all rows instead of the index.
    """
    create function formulary.tenant_words(tenant integer, lexemes tsvector) returns text[]
    language sql immutable parallel safe cost 10000 as $$
        select array_agg(tenant::text || ':' || lexeme) from unnest(tsvector_to_array(lexemes)) as lexeme
    $$
    """,
    # Under row-level security no condition on words may use an index, so this reads as the owner, to whom a policy
    # shows all rows, and names the tenants itself. Nothing of a word that more than so many workflows hold.
    """
    create function formulary.holders(words text[], at_most integer) returns table (word text, version_id text)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select held.word, held.version_id from (
            select asked.word, found.version_id, count(*) over (partition by asked.word) as holders from (
                select each.word, array(
                    select tenant::text || ':' || each.word from unnest(visible_tenants()) as tenant) as tokens
                from unnest(words) as each (word) offset 0
            ) as asked cross join lateral (
                select version_id from workflow_search
                where leading_row and tenant_words(tenant_id, lexemes) collate "C" && asked.tokens limit at_most + 1
            ) as found
        ) as held where held.holders <= at_most
    $$
    """,
    "revoke all on function formulary.holders(text[], integer) from public",
    f"grant execute on function formulary.holders(text[], integer) to {SERVER}",
]

INCIDENTS = [
    # Incidents of the namespaces that the session names; `*` is all. What they demand is sealed elsewhere as well.
    f"""
    create policy server_reads on formulary.request_context for select to {SERVER}
    using (namespace = any ((select string_to_array(current_setting('formulary.incidents_read', true), ','))::text[])
           or (select current_setting('formulary.incidents_read', true)) = '*')
    """,
    # Functions and views that run as the owner look.
    "create policy owner_looks on formulary.request_context for select to current_user using (true)",
    *(
        f"create policy owner_shows on formulary.{table} for select to current_user using (true)"
        for table in ("workflow_version", "workflow_search", "request_context")
    ),
    "create index request_context_changed on formulary.request_context (changed_at, (namespace || '/' || name))",
]

CLUSTER = [
    # What the operator refused to take. The words are those of the object's condition Ready; `since` is its last
    # transition.
    """
    create table formulary.refused_workflow (
        tenant_id integer not null references formulary.tenant,
        namespace text collate "C" not null,
        name text collate "C" not null,
        version text not null,
        reason text not null,
        message text not null,
        since timestamptz not null,
        primary key (namespace, name)
    )
    """,
    "alter table formulary.refused_workflow enable row level security",
    "alter table formulary.refused_workflow force row level security",
    f"create policy writer on formulary.refused_workflow to {WRITER} using (true) with check (true)",
    f"""
    create policy server on formulary.refused_workflow for select to {SERVER}
    using (tenant_id = any ((select formulary.visible_tenants())::integer[]))
    """,
    "create policy owner_looks on formulary.refused_workflow for select to current_user using (true)",
    f"grant select on formulary.refused_workflow to {SERVER}",
    f"grant select, insert, update, delete on formulary.refused_workflow to {WRITER}",
    # Numbers alone, which are for everybody: the objects of a refused sweep are in `sweep_refusal`.
    """
    create table formulary.resync (
        operator text collate "C" primary key,
        finished_at timestamptz not null,
        every_seconds double precision not null,
        listed integer not null,
        differed integer not null,
        sweep text not null,
        missing integer not null,
        served integer not null
    )
    """,
    f"grant select on formulary.resync to {SERVER}",
    f"grant select, insert, update, delete on formulary.resync to {WRITER}",
    # What a sweep of an operator refused to remove, until somebody allows it.
    """
    create table formulary.sweep_refusal (
        operator text collate "C" primary key, id text not null, served integer not null, missing jsonb not null,
        refused_at timestamptz not null default now(), allowed_at timestamptz
    )
    """,
    "grant select, insert, update, delete on formulary.sweep_refusal to formulary_writer",
    # The token from which the secret paths of the admission webhook follow: one for all replicas of the operator.
    """
    create table formulary.webhook_token (
        only_one boolean primary key default true check (only_one),
        token text not null check (token ~ '^[0-9a-f]{64}$'),
        created_at timestamptz not null default now()
    )
    """,
    "grant select, insert on formulary.webhook_token to formulary_writer",
    # Alerting rules of the PrometheusRule objects of a cluster.
    # Of each object its alerts by name; expressions are not kept. `ignored` is why one needs no remedy.
    """
    create table formulary.alert_rule (
        namespace text collate "C" not null,
        object text collate "C" not null,
        name text collate "C" not null,
        severity text not null,
        summary text not null,
        ignored text not null,
        primary key (namespace, object, name)
    )
    """,
    "alter table formulary.alert_rule enable row level security",
    "alter table formulary.alert_rule force row level security",
    f"create policy writer on formulary.alert_rule to {WRITER} using (true) with check (true)",
    # Those of the namespaces that the session names; `*` is all.
    f"""
    create policy server on formulary.alert_rule for select to {SERVER}
    using (namespace = any ((select string_to_array(current_setting('formulary.rules_read', true), ','))::text[])
           or (select current_setting('formulary.rules_read', true)) = '*')
    """,
    "create policy owner_looks on formulary.alert_rule for select to current_user using (true)",
    f"grant select on formulary.alert_rule to {SERVER}",
    f"grant select, insert, update, delete on formulary.alert_rule to {WRITER}",
    # For the server to ask about the caller's rights in each.
    """
    create function formulary.namespaces_with_rules(at_most integer) returns setof text
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select distinct namespace from alert_rule order by namespace limit at_most
    $$
    """,
    "revoke all on function formulary.namespaces_with_rules(integer) from public",
    f"grant execute on function formulary.namespaces_with_rules(integer) to {SERVER}",
]

ENDED_SESSIONS = [
    # Sessions of the console that people ended: no replica of the server takes their cookies again.
    # Kept until no cookie of the session could be taken any more. The digest is of the id, which proves nothing.
    """
    create table formulary.ended_session (
        digest bytea primary key check (octet_length(digest) = 32),
        over_at timestamptz not null
    )
    """,
    f"grant select on formulary.ended_session to {SERVER}",
    # The server may add, and nothing else; what is over goes when the next one is added.
    """
    create function formulary.end_session(session bytea, kept_seconds integer) returns void
    language sql volatile security definer set search_path = formulary, pg_temp as $$
        delete from ended_session where digest in (
            select digest from ended_session where over_at < clock_timestamp() limit 1000 for update skip locked
        );
        insert into ended_session (digest, over_at)
        values (session, clock_timestamp() + make_interval(secs => kept_seconds))
        on conflict do nothing
    $$
    """,
    "revoke all on function formulary.end_session(bytea, integer) from public",
    f"grant execute on function formulary.end_session(bytea, integer) to {SERVER}",
]

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
    # As before, without selections that are recorded as unsupported, or that no search in the trail supports: the role
    # that records selections could say anything. Older events do not say, and count as they did.
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

TRACES = [
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
    # real ones first; empty without one. A row costs lookups, so the list ends with the row that fills it. Where few
    # traces can be meant, they are looked up; else the newest are tried, of which many are meant then.
    f"""
    create function formulary.traces_in(
        namespaces text[], in_namespace text, in_trace text, in_phases text[], since timestamptz,
        before timestamptz, before_trace text, at_most integer
    ) returns table (
        trace_id text, changed_at timestamptz, events bigint, held boolean, belongs_to text[], phase text,
        first_body text, first_kind text, last_kind text
    )
    language plpgsql stable security definer set search_path = formulary, pg_temp as $$
    #variable_conflict use_column
    declare
        readable constant text[] := traces_in.namespaces;
        wanted text[] := case when in_namespace = '' then readable else array[in_namespace] end;
        without_run constant boolean := in_phases is not null and in_phases = array[''];
        few text[];
        many bigint := 0;
        heads refcursor;
        head record;
        listed integer := 0;
    begin
        if in_trace <> '' then
            few := array[in_trace];
        elsif wanted is not null then
            select coalesce(array_agg(meant.trace_id), '{{}}'), count(*) into few, many from (
                (select s.trace_id from sealed_constraints s where s.namespace = any (wanted) limit {FEW} + 1)
                union all
                (select i.trace_id from invocation i where i.namespace = any (wanted) limit {FEW} + 1)
            ) as meant;
        elsif in_phases is not null and not '' = any (in_phases) then
            select coalesce(array_agg(meant.trace_id), '{{}}'), count(*) into few, many from (
                select i.trace_id from invocation i where i.phase = any (in_phases) limit {FEW} + 1
            ) as meant;
        end if;
        if few is null or many > {FEW} then
            open heads for
                select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                where not h.reading and h.changed_at >= since
                  and not (without_run and exists (select from invocation i where i.trace_id = h.trace_id))
                  and (before is null or (h.changed_at, h.trace_id) < (before, before_trace))
                order by h.changed_at desc, h.trace_id desc;
        else
            open heads for
                select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                where h.trace_id = any (few) and not h.reading and h.changed_at >= since
                  and (before is null or (h.changed_at, h.trace_id) < (before, before_trace))
                order by h.changed_at desc, h.trace_id desc;
        end if;
        loop
            exit when listed >= at_most;
            fetch heads into head;
            exit when not found;
            belongs_to := array(
                select distinct s.namespace from sealed_constraints s where s.trace_id = head.trace_id order by 1);
            if belongs_to = '{{}}' then
                belongs_to := array(
                    select distinct i.namespace from invocation i where i.trace_id = head.trace_id order by 1);
            end if;
            continue when in_namespace <> '' and not in_namespace = any (belongs_to);
            continue when readable is not null and not (belongs_to <> '{{}}' and belongs_to <@ readable);
            phase := coalesce((
                select i.phase from invocation i where i.trace_id = head.trace_id
                order by i.dry_run or i.degraded, i.created_at desc limit 1), '');
            continue when in_phases is not null and not phase = any (in_phases);
            select e.body, e.kind into first_body, first_kind from trace_event e
            where e.trace_id = head.trace_id and e.month = head.month order by e.seq limit 1;
            continue when not found;
            select e.kind into last_kind from trace_event e
            where e.trace_id = head.trace_id and e.month = head.month order by e.seq desc limit 1;
            held := exists (select from trace_hold t where t.trace_id = head.trace_id and t.released_at is null);
            trace_id := head.trace_id;
            changed_at := head.changed_at;
            events := head.seq;
            listed := listed + 1;
            return next;
        end loop;
        close heads;
    end
    $$
    """,
    # The same with `in_incidents`: only traces of incidents and those with runs. A trace that is asked for by its id is
    # there in any case.
    rf"""
    create function formulary.traces_in(
        namespaces text[], in_namespace text, in_trace text, in_phases text[], since timestamptz,
        before timestamptz, before_trace text, at_most integer, in_incidents boolean
    ) returns table (
        trace_id text, changed_at timestamptz, events bigint, held boolean, belongs_to text[], phase text,
        first_body text, first_kind text, last_kind text
    )
    language plpgsql stable security definer set search_path = formulary, pg_temp as $$
    #variable_conflict use_column
    declare
        readable constant text[] := traces_in.namespaces;
        wanted text[] := case when in_namespace = '' then readable else array[in_namespace] end;
        without_run constant boolean := in_phases is not null and in_phases = array[''];
        needs_incident constant boolean := in_incidents and in_trace = '';
        few text[];
        many bigint := 0;
        own text[] := '{{}}';
        heads refcursor;
        head record;
        listed integer := 0;
    begin
        if in_trace <> '' then
            few := array[in_trace];
        elsif wanted is not null then
            select coalesce(array_agg(meant.trace_id), '{{}}'), count(*) into few, many from (
                (select s.trace_id from sealed_constraints s where s.namespace = any (wanted) limit {FEW} + 1)
                union all
                (select i.trace_id from invocation i where i.namespace = any (wanted) limit {FEW} + 1)
            ) as meant;
        elsif in_phases is not null and not '' = any (in_phases) then
            select coalesce(array_agg(meant.trace_id), '{{}}'), count(*) into few, many from (
                select i.trace_id from invocation i where i.phase = any (in_phases) limit {FEW} + 1
            ) as meant;
        end if;
        if needs_incident and (few is null or many > {FEW}) then
            own := array(
                select distinct i.trace_id from invocation i where i.trace_id like 'tr\_%' limit {FEW} + 1);
        end if;
        if few is not null and many <= {FEW} then
            open heads for
                select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                where h.trace_id = any (few) and not h.reading and h.changed_at >= since
                  and (before is null or (h.changed_at, h.trace_id) < (before, before_trace))
                order by h.changed_at desc, h.trace_id desc;
        elsif needs_incident and cardinality(own) <= {FEW} then
            open heads for
                select * from (
                    select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                    where not h.reading and h.trace_id not like 'tr\_%'
                    union all
                    select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                    where not h.reading and h.trace_id = any (own)
                ) as h
                where h.changed_at >= since
                  and not (without_run and exists (select from invocation i where i.trace_id = h.trace_id))
                  and (before is null or (h.changed_at, h.trace_id) < (before, before_trace))
                order by h.changed_at desc, h.trace_id desc;
        else
            open heads for
                select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                where not h.reading and h.changed_at >= since
                  and not (without_run and exists (select from invocation i where i.trace_id = h.trace_id))
                  and (before is null or (h.changed_at, h.trace_id) < (before, before_trace))
                order by h.changed_at desc, h.trace_id desc;
        end if;
        loop
            exit when listed >= at_most;
            fetch heads into head;
            exit when not found;
            phase := coalesce((
                select i.phase from invocation i where i.trace_id = head.trace_id
                order by i.dry_run or i.degraded, i.created_at desc limit 1), '');
            continue when needs_incident and head.trace_id like 'tr\_%' and phase = '';
            continue when in_phases is not null and not phase = any (in_phases);
            belongs_to := array(
                select distinct s.namespace from sealed_constraints s where s.trace_id = head.trace_id order by 1);
            if belongs_to = '{{}}' then
                belongs_to := array(
                    select distinct i.namespace from invocation i where i.trace_id = head.trace_id order by 1);
            end if;
            continue when in_namespace <> '' and not in_namespace = any (belongs_to);
            continue when readable is not null and not (belongs_to <> '{{}}' and belongs_to <@ readable);
            select e.body, e.kind into first_body, first_kind from trace_event e
            where e.trace_id = head.trace_id and e.month = head.month order by e.seq limit 1;
            continue when not found;
            select e.kind into last_kind from trace_event e
            where e.trace_id = head.trace_id and e.month = head.month order by e.seq desc limit 1;
            held := exists (select from trace_hold t where t.trace_id = head.trace_id and t.released_at is null);
            trace_id := head.trace_id;
            changed_at := head.changed_at;
            events := head.seq;
            listed := listed + 1;
            return next;
        end loop;
        close heads;
    end
    $$
    """,
]

COUNTS = [
    # Whether an event counts for a call: under an incident those of that incident, else those of its caller and those
    # for incidents of these namespaces; null for all.
    """
    create function formulary.counts_for(event formulary.trace_event, namespaces text[], by_caller text, incident text)
    returns boolean language sql stable as $$
        select case
            when incident <> '' then event.facts ->> 'remediation_id' = incident
            else namespaces is null or event.caller = by_caller or event.facts ->> 'namespace' = any (namespaces)
        end
    $$
    """,
    "revoke all on function formulary.counts_for(formulary.trace_event, text[], text, text) from public",
    # How often these versions were first in a search, and how often they were chosen.
    f"""
    create function formulary.use_of(
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
    # Searches by mode; `weak` are those whose first hit is less sure than that, `unanswered` those without any.
    """
    create function formulary.searches_by_mode(
        namespaces text[], by_caller text, incident text, since timestamptz, sure double precision
    ) returns table (mode text, searches bigint, weak bigint, unanswered bigint)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select coalesce(facts ->> 'mode', ''), count(*),
               count(*) filter (where (facts -> 'confidence')::double precision < sure),
               count(*) filter (where not facts ? 'version_id')
        from formulary.trace_event
        where kind = 'search' and at >= since and facts ->> 'outcome' = 'ok'
          and formulary.counts_for(trace_event, namespaces, by_caller, incident)
        group by 1
    $$
    """,
    """
    create function formulary.unanswered_queries(
        namespaces text[], by_caller text, incident text, since timestamptz, at_most integer
    ) returns table (query text, times bigint)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select body::jsonb #>> '{payload,arguments,query}', count(*)
        from formulary.trace_event
        where kind = 'search' and at >= since and facts ->> 'outcome' = 'ok' and not facts ? 'version_id'
          and formulary.counts_for(trace_event, namespaces, by_caller, incident)
        group by 1 order by 2 desc, 1 limit at_most
    $$
    """,
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
    # How often each version was found, was first, and was chosen.
    f"""
    create function formulary.uses_of_workflows(namespaces text[], by_caller text, since timestamptz)
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

READERS = (
    "known_namespaces(integer)",
    "namespaces_of_trace(text)",
    "trace_of_search(uuid)",
    "traces_in(text[], text, text, text[], timestamptz, timestamptz, text, integer)",
    "traces_in(text[], text, text, text[], timestamptz, timestamptz, text, integer, boolean)",
    "use_of(text[], text[], text, text, timestamptz)",
    "searches_by_mode(text[], text, text, timestamptz, double precision)",
    "unanswered_queries(text[], text, text, timestamptz, integer)",
    "weak_queries(text[], text, timestamptz, double precision, integer)",
    "demand_for(text[], text[], text, timestamptz)",
    "uses_of_workflows(text[], text, timestamptz)",
)
"""Functions of lists and counts, for the server alone."""
RIGHTS = [
    statement
    for function in READERS
    for statement in (
        f"revoke all on function formulary.{function} from public",
        f"grant execute on function formulary.{function} to {SERVER}",
    )
]


def upgrade() -> None:
    """Add to what is there; two tables are rewritten, and `enter` is replaced."""
    op.execute(AS_OWNER)
    for statement in (*LOCKS, *TENANTS, *COLUMNS, *RELATIONS, *WORDS, *INCIDENTS, *CLUSTER):
        op.execute(statement)
    for statement in (*ENDED_SESSIONS, *SELECTIONS, *TRACES, *COUNTS, *RIGHTS):
        op.execute(statement)
