"""What browsing reads: columns of a listing, relations between workflows, what searches came to, runs under review."""

from alembic import op

revision = "0020"
down_revision = "0019"

SERVER = "formulary_server"
WRITER = "formulary_writer"


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
    """
    create index workflow_version_listed on formulary.workflow_version (tenant_id, name, namespace, version_id)
    include (action_type, risk_level, changed_at) where status = 'Active'
    """,
    # Compared as they are: row-level security is looked at before any function that might tell what it is given.
    *(
        f"create index workflow_version_{key} on formulary.workflow_version (tenant_id, {key}) where status = 'Active'"
        for key in ("title_key", "action_key")
    ),
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
    # there, so that it is no mention. An empty namespace was not given.
    r"""
    create function formulary.relations_of(document jsonb)
    returns table (relation text, namespace text, name text)
    language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
        select distinct said.relation, coalesce(substring(said.named from '^([^/]+)/'), ''),
               substring(said.named from '[^/]+$')
        from (
            select link ->> 'relation' as relation, link ->> 'name' as named
            from jsonb_array_elements(
                case jsonb_typeof(document #> '{spec,related}')
                when 'array' then document #> '{spec,related}' else '[]' end) as link
            union all
            select 'mentions', found[1]
            from regexp_matches(
                coalesce(document #>> '{spec,description,whenNotToUse}',
                         document #>> '{spec,description,when_not_to_use}', ''),
                '(?<![A-Za-z0-9_./-])((?:[a-z0-9-]+/)?[a-z0-9]+(?:[-.][a-z0-9]+)+)(?![A-Za-z0-9_])', 'g') as found
            where found[1] like '%-%'
        ) as said
        where said.relation in ('escalatesTo', 'supersedes', 'rollbackOf', 'requires', 'mentions')
          and said.named ~ '^([a-z0-9-]{1,63}/)?[a-z0-9][a-z0-9.-]{0,252}$'
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
    # Row-level security is forced on the owner too, which is who migrates.
    "create policy migration on formulary.workflow_version to current_user using (true)",
    "create policy migration on formulary.workflow_relation to current_user using (true) with check (true)",
    """
    insert into formulary.workflow_relation (version_id, tenant_id, relation, namespace, name)
    select version_id, tenant_id, said.* from formulary.workflow_version, formulary.relations_of(document) as said
    """,
    "drop policy migration on formulary.workflow_version",
    "drop policy migration on formulary.workflow_relation",
]

SEARCHES = [
    # What a search or a selection came to, beside its event and gone with it: bodies are too long to count with.
    "alter table formulary.trace_event add column at timestamptz, add column facts jsonb",
    """
    create function formulary.note_facts() returns trigger
    language plpgsql set search_path = formulary, pg_temp as $$
    declare
        event jsonb := new.body;
        payload jsonb := event -> 'payload';
        first jsonb := payload #> '{result,candidates,0}';
    begin
        new.at := event ->> 'at';
        new.facts := jsonb_strip_nulls(jsonb_build_object(
            'outcome', payload ->> 'outcome',
            'mode', payload ->> 'mode',
            'remediation_id', payload ->> 'remediation_id',
            'namespace', split_part(coalesce(payload ->> 'analysis', ''), '/', 1),
            'version_id', coalesce(first ->> 'version_id', payload #>> '{result,version_id}'),
            'confidence', first -> 'confidence'));
        return new;
    end
    $$
    """,
    """
    create trigger note_facts before insert on formulary.trace_event
    for each row when (new.kind in ('search', 'selection')) execute function formulary.note_facts()
    """,
    "create index trace_event_searched on formulary.trace_event (at) where kind = 'search'",
    """
    create index trace_event_chosen on formulary.trace_event ((facts ->> 'version_id'), at)
    where kind in ('search', 'selection')
    """,
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
    """
    create function formulary.use_of(
        versions text[], namespaces text[], by_caller text, incident text, since timestamptz,
        out first bigint, out chosen bigint
    )
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select count(*) filter (where kind = 'search'), count(*) filter (where kind = 'selection')
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
    *(
        statement
        for function in (
            "use_of(text[], text[], text, text, timestamptz)",
            "searches_by_mode(text[], text, text, timestamptz, double precision)",
            "unanswered_queries(text[], text, text, timestamptz, integer)",
        )
        for statement in (
            f"revoke all on function formulary.{function} from public",
            f"grant execute on function formulary.{function} to {SERVER}",
        )
    ),
]

REVIEWING = [
    # Runs and contracts of the namespaces in which the caller may read them; `*` is all.
    *(
        f"""
        create policy server_reviews on formulary.{table} for select to {SERVER}
        using (namespace = any ((select string_to_array(current_setting('formulary.reviewed', true), ','))::text[])
               or (select current_setting('formulary.reviewed', true)) = '*')
        """
        for table in ("invocation", "governance_contract")
    ),
    """
    create index invocation_waiting on formulary.invocation (created_at) where phase = 'AwaitingApproval'
    """,
]

FREE = (
    "search",
    "details",
    "list",
    "selection",
    "constraints",
    "status",
    "governance.gate",
    "governance.enforce",
    "governance.verdict",
    "governance.replay",
    "invocation.refused",
)
"""Kinds of events that anybody may append. `read.` and what was read is another one."""

TRAIL = [
    # As before, but for events of reading.
    f"""
    create or replace function formulary.may_append(in_trace text, in_kind text, payload jsonb) returns boolean
    language plpgsql stable security definer set search_path = formulary, pg_temp as $$
    declare
        invoker name := case current_setting('role') when 'none' then session_user else current_setting('role') end;
    begin
        if in_kind in ({", ".join(f"'{kind}'" for kind in FREE)}) or in_kind like 'read.%' then
            return true;
        end if;
        if pg_has_role(invoker, current_user, 'MEMBER') then
            return true;
        end if;
        if in_kind like 'hold.%' then
            return false;
        end if;
        if pg_has_role(invoker, '{WRITER}', 'MEMBER') then
            return true;
        end if;
        if in_kind in ('invocation.requested', 'invocation.decided', 'invocation.finished') then
            return exists (
                select from invocation
                where id = payload ->> 'invocation_id' and trace_id = in_trace and source = 'server'
                  and requester = payload ->> 'caller' and xmin = pg_current_xact_id()::xid
                  and (in_kind <> 'invocation.finished' or dry_run and phase = payload ->> 'phase'));
        end if;
        return exists (
            select from invocation_approval as approval join invocation as run on run.id = approval.invocation_id
            where run.id = payload ->> 'invocation_id' and run.trace_id = in_trace and approval.source = 'server'
              and approval.approver = payload ->> 'caller' and approval.approver = payload ->> 'approver'
              and coalesce(payload ->> 'object', '') = '' and approval.xmin = pg_current_xact_id()::xid
              and in_kind = 'invocation.' || case approval.decision when 'Approve' then 'approved' else 'rejected' end);
    end
    $$
    """,
]


def upgrade() -> None:
    """Add to what is there."""
    for statement in (*COLUMNS, *RELATIONS, *SEARCHES, *REVIEWING, *TRAIL):
        op.execute(statement)
