"""Schema `insight`: what callers may ask by SQL of their own, for the role `formulary_insight`, which can do no more.

The views show rows of the namespaces that the transaction was entered for (`domain/analytics/scope.py`), and nothing to
a transaction that was not. They are security barriers: no condition of a caller sees a row before theirs does. Comments
are what `get_schema` answers. Searches, runs and the trail go on meanwhile: only who writes workflows waits, for the
indexes that are made here.
"""

from alembic import op

revision = "0040"
down_revision = "0009b"

SERVER = "formulary_server"
WRITER = "formulary_writer"
ROLE = "formulary_insight"

# Who migrates need not be who owns what there is: a superuser may.
OWNED_SCHEMA = """
do $$
declare
    owner constant text := (
        select pg_get_userbyid(relowner) from pg_class where oid = 'formulary.workflow_version'::regclass);
begin
    execute format('create schema insight authorization %I', owner);
    execute format('set local role %I', owner);
end
$$
"""
CREATE_ROLE = f"""
do $$
begin
    if not exists (select from pg_roles where rolname = '{ROLE}') then
        create role {ROLE} login;
    end if;
exception
    when duplicate_object or unique_violation then
        null;  -- roles belong to the whole server: another database's migration was faster
    when insufficient_privilege then
        raise notice 'no role {ROLE}: analytics stays off until an administrator creates it';
end
$$
"""

INDEXES = [
    """
    create index workflow_version_listed on formulary.workflow_version (tenant_id, name, namespace, version_id)
    include (action_type, risk_level, changed_at) where status = 'Active'
    """,
    # Compared as they are: row-level security is looked at before any function that might tell what it is given.
    *(
        f"create index workflow_version_{key} on formulary.workflow_version (tenant_id, {key}) where status = 'Active'"
        for key in ("title_key", "action_key")
    ),
    # Signals and statuses are counted for all of a catalog: here without vectors and documents.
    "create index workflow_search_signals on formulary.workflow_search (signal_type, tenant_id)",
    """
    create index workflow_version_unserved on formulary.workflow_version (tenant_id, status)
    where status not in ('Active', 'Deleted')
    """,
    # Without a list of what is pending, which every search would have to read through.
    """
    create index workflow_search_words on formulary.workflow_search
    using gin (formulary.tenant_words(tenant_id, lexemes) collate "C") with (fastupdate = off) where leading_row
    """,
]

# Row-level security is forced on the owner, who may migrate. Versions that come now note their relations themselves.
FILL = [
    f"set local role {WRITER}",
    """
    insert into formulary.workflow_relation (version_id, tenant_id, relation, namespace, name)
    select version_id, tenant_id, said.* from formulary.workflow_version, formulary.relations_of(document) as said
    on conflict do nothing
    """,
    "reset role",
]

# The versions that an incident allows may be 100,000: the scope has their digest, and a view reads them where it needs
# them.
VERSIONS = """
create function insight.versions() returns setof text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    allowed text[] := (select versions from insight.scope());
    said text := coalesce(current_setting('formulary.insight_versions', true), '');
begin
    if allowed[1] = 'sha256:' || encode(sha256(convert_to(said, 'UTF8')), 'hex') then
        return query select unnest(string_to_array(said, ','));
    else
        return query select unnest(allowed);
    end if;
end
$$
"""
SCOPE = [
    # The key by which the server proves a scope: a caller of set_config could otherwise choose its own tenants.
    """
    create table formulary.insight_key (
        key bytea not null,
        only_row boolean primary key default true check (only_row)
    )
    """,
    """
    insert into formulary.insight_key (key)
    values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())))
    """,
    f"grant select on formulary.insight_key to {SERVER}",
    # What the setting says, if its proof is right and it was made for this very transaction; else null.
    """
    create function insight.said() returns jsonb
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
    declare
        proof text := split_part(current_setting('formulary.insight', true), ' ', 1);
        content text := substr(current_setting('formulary.insight', true), length(proof) + 2);
        secret bytea := (select key from formulary.insight_key);
        said jsonb;
    begin
        if proof is distinct from encode(
            sha256(secret || sha256(secret || convert_to(content, 'UTF8'))), 'hex')
        then
            return null;
        end if;
        said := content::jsonb;
        if said ->> 'transaction' is distinct from pg_backend_pid() || ' ' || extract(epoch from now()) then
            return null;
        end if;
        return said;
    end
    $$
    """,
    "revoke all on function insight.said() from public",
    # Nulls, which no row matches, if nothing is said. `*` stands for all. The hash is nested, so that nobody can append
    # to what was signed.
    """
    create function insight.scope(
        out namespaces text[], out incidents text[], out runs text[], out versions text[], out remediation_id text,
        out caller text
    )
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
    declare
        said jsonb := insight.said();
    begin
        if said is null then
            return;
        end if;
        namespaces := array(select jsonb_array_elements_text(said -> 'namespaces'));
        incidents := array(select jsonb_array_elements_text(said -> 'incidents'));
        runs := array(select jsonb_array_elements_text(said -> 'runs'));
        versions := array(select jsonb_array_elements_text(said -> 'versions'));
        remediation_id := said ->> 'remediation_id';
        caller := said ->> 'caller';
    end
    $$
    """,
    "revoke all on function insight.scope() from public",
    VERSIONS,
    "revoke all on function insight.versions() from public",
    """
    create function insight.shows_suspended() returns boolean
    language sql stable security definer set search_path = pg_catalog, pg_temp as
    $$ select coalesce((insight.said() ->> 'suspended')::boolean, false) $$
    """,
    "revoke all on function insight.shows_suspended() from public",
]


def _scope(field: str) -> str:
    """A part of the scope, computed once for a statement."""
    return f"(select (insight.scope()).{field})"


def _in(column: str, field: str) -> str:
    """Whether the scope has the namespace in this column."""
    names = f"{_scope(field)}::text[]"
    return f"('*' = any ({names}) or {column} = any ({names}))"


def _allowed(column: str) -> str:
    """Whether the incident of the call, if it has one, allows the version in this column, and it is not suspended.

    To agents, a suspended workflow does not exist: all its versions are left out, unless the scope says `suspended`.
    """
    return f"""('*' = any ({_scope("versions")}::text[]) or {column} in (select insight.versions()))
and ((select insight.shows_suspended()) or coalesce({column}, '') not in (
    select withheld.version_id from formulary.workflow_version as suspended
    join formulary.workflow_version as withheld using (tenant_id, name) where suspended.status = 'Disabled'))"""


def _own(column: str) -> str:
    """Whether the row belongs to the incident of the call, if it has one."""
    return f"({_scope('remediation_id')} = '' or {column} = {_scope('remediation_id')})"


def _entitled(namespace: str, by: str) -> str:
    """Whether the caller may use the incidents of this namespace, or wrote the row itself."""
    return f"({_in(namespace, 'incidents')} or {by} = {_scope('caller')})"


_EVENT = f"""
    select event.search_id, event.caller, event.kind, (said.body ->> 'at')::timestamptz as at,
           said.body -> 'payload' as payload, said.namespace, said.remediation_id,
           {_entitled("said.namespace", "event.caller")} as entitled
    from formulary.trace_event as event
    cross join lateral (
        select body, split_part(coalesce(body #>> '{{payload,analysis}}', ''), '/', 1) as namespace,
               coalesce(body #>> '{{payload,remediation_id}}', '') as remediation_id
        from (select event.body::jsonb as body offset 0) as read
        where body #>> '{{payload,outcome}}' = 'ok'
    ) as said
    where event.kind = '%s' and {_own("said.remediation_id")}
      and ({_in("said.namespace", "namespaces")} or {_entitled("said.namespace", "event.caller")})
"""
"""Answered searches or selections, as far as they may be known of."""
_SEARCHES, _SELECTIONS = _EVENT % "search", _EVENT % "selection"

_CANDIDATES = f"""
    select event.search_id, event.at, event.entitled, event.namespace as incident_namespace,
           split_part(found.item ->> 'workflow', '@', 1) as workflow,
           split_part(found.item ->> 'workflow', '/', 1) as namespace,
           split_part(found.item ->> 'workflow', '@', 2) as version,
           found.item ->> 'version_id' as version_id,
           row_number() over (partition by event.search_id order by found.place) as rank,
           (found.item ->> 'confidence')::double precision as confidence,
           (found.item ->> 'cosine')::double precision as cosine,
           coalesce((found.item ->> 'returned')::boolean, false) as returned
    from ({_SEARCHES}) as event
    cross join lateral jsonb_array_elements(coalesce(event.payload #> '{{result,candidates}}', '[]'))
        with ordinality as found (item, place)
    where {_in("split_part(found.item ->> 'workflow', '/', 1)", "namespaces")}
      and {_allowed("found.item ->> 'version_id'")}
"""

_RUNS = f"""
    select run.*, run.workflow_namespace || '/' || run.workflow_name as workflow,
           split_part(run.analysis, '/', 1) as incident_namespace,
           {_entitled("split_part(run.analysis, '/', 1)", "run.requester")} as entitled
    from formulary.invocation as run
    where ({_in("run.namespace", "runs")} or run.requester = {_scope("caller")})
      and {_in("run.workflow_namespace", "namespaces")} and {_allowed("run.version_id")}
      and {_own("run.remediation_id")}
"""

VIEWS = {
    "catalog": (
        "Workflows that are served, one row each. People see those that are suspended as well.",
        f"""
        select version.namespace || '/' || version.name, version.namespace, version.name, version.version,
               version.version_id, version.status, version.title, version.action_type, version.risk_level,
               coalesce(search.signal_types, '{{}}'), coalesce(search.severity, '{{}}'),
               coalesce(search.environment, '{{}}'), coalesce(search.component, '{{}}'),
               coalesce(search.priority, '{{}}'), coalesce(search.cluster, '{{}}'), version.changed_at
        from formulary.workflow_version as version
        left join formulary.workflow_search as search
            on search.version_id = version.version_id and search.leading_row
        where version.status in ('Active', 'Disabled') and {_in("version.namespace", "namespaces")}
          and {_allowed("version.version_id")}
        """,
        {
            "workflow": "Namespace and name, `namespace/name`.",
            "namespace": "Namespace of the workflow.",
            "name": "Name of the workflow.",
            "version": "Semantic version that is served.",
            "version_id": "Id of that version; joins versions, candidates, selections, runs and outcomes.",
            "status": "Active, or Disabled (suspended), which only people see.",
            "title": "Title, as its author wrote it.",
            "action_type": "What it does, such as RestartPod.",
            "risk_level": "Risk that its author declares.",
            "signal_types": "Signals that it answers, folded to lower case.",
            "severity": "Severities that it declares.",
            "environment": "Environments that it declares.",
            "component": "Kinds of resources that it declares.",
            "priority": "Priorities that it declares.",
            "cluster": "Clusters that it is limited to.",
            "changed_at": "When it was last stored or changed status.",
        },
    ),
    "versions": (
        "Every version of every workflow that is not deleted; only people see those of suspended ones.",
        f"""
        select version.version_id, version.namespace || '/' || version.name, version.namespace, version.name,
               version.version, version.status, version.title, version.action_type, version.risk_level,
               version.created_at, version.changed_at
        from formulary.workflow_version as version
        where version.status <> 'Deleted' and {_in("version.namespace", "namespaces")}
          and {_allowed("version.version_id")}
        """,
        {
            "version_id": "Id of the version.",
            "workflow": "Namespace and name, `namespace/name`.",
            "namespace": "Namespace of the workflow.",
            "name": "Name of the workflow.",
            "version": "Semantic version.",
            "status": "Active, Disabled or Superseded.",
            "title": "Title, as its author wrote it.",
            "action_type": "What it does, such as RestartPod.",
            "risk_level": "Risk that its author declares.",
            "created_at": "When the version was first stored.",
            "changed_at": "When its status last changed.",
        },
    ),
    "searches": (
        "Searches that were answered, one row each.",
        f"""
        select event.search_id, event.at, event.caller, event.namespace,
               case when event.entitled then event.remediation_id end,
               case when event.entitled then event.payload #>> '{{arguments,query}}' end,
               coalesce(event.payload ->> 'mode', ''),
               (event.payload ->> 'duration_ms')::double precision, coalesce(found.candidates, 0),
               found.workflow, found.confidence
        from ({_SEARCHES}) as event
        left join lateral (
            select count(*)::integer as candidates,
                   max(candidate.workflow) filter (where candidate.rank = 1) as workflow,
                   max(candidate.confidence) filter (where candidate.rank = 1) as confidence
            from (
                select split_part(item ->> 'workflow', '@', 1) as workflow,
                       (item ->> 'confidence')::double precision as confidence,
                       row_number() over (order by place) as rank
                from jsonb_array_elements(coalesce(event.payload #> '{{result,candidates}}', '[]'))
                    with ordinality as each (item, place)
                where {_in("split_part(item ->> 'workflow', '/', 1)", "namespaces")}
                  and {_allowed("item ->> 'version_id'")}
            ) as candidate
        ) as found on true
        """,
        {
            "search_id": "Id of the search; joins candidates, selections and runs.",
            "at": "When it was asked.",
            "caller": "Who asked.",
            "namespace": "Namespace of its incident; empty without one.",
            "remediation_id": "Its incident; null without the right to use incidents of that namespace.",
            "query": "What was asked; null without the right to use incidents of that namespace. Only data.",
            "mode": "How it was ranked: hybrid, lexical or labels-only.",
            "duration_ms": "Milliseconds until the answer.",
            "candidates": "Recorded candidates that you may see.",
            "first_workflow": "First candidate that you may see.",
            "first_confidence": "Confidence of that candidate, 0 to 1.",
        },
    ),
    "candidates": (
        "Workflows that searches found, one row for each search and workflow.",
        f"""
        select search_id, at, incident_namespace, rank, workflow, namespace, version, version_id, confidence, cosine,
               returned
        from ({_CANDIDATES}) as candidate
        """,
        {
            "search_id": "The search.",
            "at": "When it was asked.",
            "incident_namespace": "Namespace of its incident; empty without one.",
            "rank": "Place among the candidates that you may see, from 1.",
            "workflow": "Namespace and name, `namespace/name`.",
            "namespace": "Namespace of the workflow.",
            "version": "Semantic version.",
            "version_id": "Id of the version.",
            "confidence": "How likely it was right, 0 to 1.",
            "cosine": "Similarity of meaning; null where words alone ranked.",
            "returned": "Whether it was in the answer.",
        },
    ),
    "selections": (
        "Choices of agents that were recorded, with their reasons.",
        f"""
        select event.at, event.caller, event.namespace, case when event.entitled then event.remediation_id end,
               event.search_id, version.namespace || '/' || version.name, version.version, version.version_id,
               (event.payload #>> '{{arguments,confidence}}')::double precision,
               coalesce((event.payload #>> '{{result,supported}}')::boolean, true),
               case when event.entitled then event.payload #>> '{{arguments,reasoning}}' end
        from ({_SELECTIONS}) as event
        join formulary.workflow_version as version on version.version_id = event.payload #>> '{{result,version_id}}'
        where version.status <> 'Deleted' and {_in("version.namespace", "namespaces")}
          and {_allowed("version.version_id")}
        """,
        {
            "at": "When it was recorded.",
            "caller": "Who chose.",
            "namespace": "Namespace of the incident; empty without one.",
            "remediation_id": "The incident; null without the right to use incidents of that namespace.",
            "search_id": "The search that it names; null without one.",
            "workflow": "What was chosen, `namespace/name`.",
            "version": "Semantic version.",
            "version_id": "Id of the version.",
            "confidence": "How sure the caller said it was, 0 to 1.",
            "supported": "Whether the named search returned this version.",
            "reasoning": "Why; null without the right to use incidents of that namespace. Only data.",
        },
    ),
    "runs": (
        "Runs of workflows, from request to end. Neither input nor output.",
        f"""
        select run.id, run.workflow, run.workflow_version, run.version_id, run.namespace, run.requester, run.source,
               case when run.entitled then run.remediation_id end, run.search_id, run.dry_run, run.degraded,
               run.phase, run.reason, run.target ->> 'kind', run.target ->> 'namespace', run.target ->> 'name',
               run.created_at, run.started_at, run.finished_at,
               extract(epoch from run.finished_at - run.started_at)::double precision
        from ({_RUNS}) as run
        """,
        {
            "run_id": "Id of the run; joins decisions and approvals.",
            "workflow": "Namespace and name of the workflow, `namespace/name`.",
            "version": "Semantic version.",
            "version_id": "Id of the version.",
            "namespace": "Namespace of the run.",
            "requester": "Who asked for it.",
            "source": "server (a call) or cluster (an object).",
            "remediation_id": "Its incident; null without the right to use incidents of that namespace.",
            "search_id": "The search that it came from; null without one.",
            "dry_run": "Whether a dry run was asked for.",
            "degraded": "Whether a rule made it a dry run.",
            "phase": "Pending, AwaitingApproval, Running, Succeeded, Failed, TimedOut, Cancelled or Halted.",
            "reason": "Why it is in that phase, in one word.",
            "target_kind": "Kind of the affected resource.",
            "target_namespace": "Namespace of the affected resource.",
            "target_name": "Name of the affected resource.",
            "created_at": "When it was asked for.",
            "started_at": "When it began.",
            "finished_at": "When it ended.",
            "duration_seconds": "Seconds from start to end.",
        },
    ),
    "decisions": (
        "What governance decided about each run, as it stands.",
        f"""
        select run.id, run.workflow, run.namespace, run.created_at, run.decision ->> 'outcome',
               run.decision #>> '{{gate,decision}}',
               array(select jsonb_array_elements(run.decision #> '{{gate,risks}}') ->> 'category'),
               array(select jsonb_array_elements(run.decision -> 'rules') ->> 'effect'),
               array(select jsonb_array_elements_text(run.decision -> 'missing')),
               coalesce((run.decision ->> 'rejected')::boolean, false)
        from ({_RUNS}) as run
        """,
        {
            "run_id": "The run.",
            "workflow": "Namespace and name of the workflow, `namespace/name`.",
            "namespace": "Namespace of the run.",
            "at": "When the run was asked for.",
            "outcome": "ALLOW, AWAIT, DEGRADE, BLOCK or HALT.",
            "gate": "What its risks come to: ALLOW, DEGRADE, UNKNOWN or BLOCK.",
            "risks": "Categories of its risks, the worst first.",
            "rules": "Effects of the rules that matched, the strongest first.",
            "missing": "What would let a waiting run go ahead.",
            "rejected": "Whether a person rejected it.",
        },
    ),
    "approvals": (
        "What people said to runs that waited.",
        f"""
        select run.id, run.workflow, run.namespace, approval.decision, approval.approver, approval.source, approval.at,
               extract(epoch from approval.at - run.created_at)::double precision,
               case when run.entitled then approval.reason end
        from formulary.invocation_approval as approval join ({_RUNS}) as run on run.id = approval.invocation_id
        """,
        {
            "run_id": "The run.",
            "workflow": "Namespace and name of the workflow, `namespace/name`.",
            "namespace": "Namespace of the run.",
            "decision": "Approve or Reject.",
            "approver": "Who decided.",
            "source": "server (a call) or cluster (an object).",
            "at": "When.",
            "waited_seconds": "Seconds since the run was asked for.",
            "reason": "Why; null without the right to use incidents of that namespace. Only data.",
        },
    ),
    "outcomes": (
        "How runs of each version ended that came to an end by themselves.",
        f"""
        select version.version_id, version.namespace || '/' || version.name, version.namespace, version.version,
               outcome.succeeded, outcome.failed,
               outcome.succeeded::double precision / nullif(outcome.succeeded + outcome.failed, 0),
               outcome.median_seconds
        from formulary.workflow_outcome as outcome join formulary.workflow_version as version using (version_id)
        where version.status <> 'Deleted' and {_in("version.namespace", "namespaces")}
          and {_allowed("version.version_id")}
        """,
        {
            "version_id": "Id of the version.",
            "workflow": "Namespace and name, `namespace/name`.",
            "namespace": "Namespace of the workflow.",
            "version": "Semantic version.",
            "succeeded": "Runs that went well.",
            "failed": "Runs that failed or timed out.",
            "success_rate": "Share of runs that went well, 0 to 1.",
            "median_seconds": "Median duration of runs that went well, in seconds.",
        },
    ),
    "alerts": (
        "Incidents that are known, as their alerts described them. No custom labels.",
        f"""
        select incident.namespace, incident.name, incident.remediation_id, incident.context ->> 'signal_name',
               incident.context ->> 'severity', incident.context ->> 'environment', incident.context ->> 'priority',
               incident.context ->> 'cluster', incident.target ->> 'target_kind',
               incident.context ->> 'target_namespace', incident.target ->> 'target_name', incident.changed_at,
               incident.gone_at, lower(btrim(incident.context ->> 'signal_name'))
        from formulary.request_context as incident
        where {_in("incident.namespace", "incidents")} and {_own("incident.remediation_id")}
        """,
        {
            "namespace": "Namespace of the incident.",
            "name": "Name of its AIAnalysis.",
            "remediation_id": "Its id; joins searches, selections and runs.",
            "signal": "Signal of the alert, such as OOMKilled.",
            "severity": "Severity of the alert.",
            "environment": "Environment of the incident.",
            "priority": "Business priority.",
            "cluster": "Cluster; empty where it is not known.",
            "target_kind": "Kind of the affected resource.",
            "target_namespace": "Namespace of the affected resource.",
            "target_name": "Name of the affected resource.",
            "changed_at": "When it was last stored.",
            "gone_at": "When its object was deleted; null while it exists.",
            "signal_type": "The signal, folded to lower case: = any (signal_types) of catalog joins.",
        },
    ),
}
"""By name: what a row is, the query, and its columns in order with what they hold."""

CREATE_ROLE = f"""
do $$
begin
    if not exists (select from pg_roles where rolname = '{ROLE}') then
        create role {ROLE} login;
    end if;
exception
    when duplicate_object or unique_violation then
        null;  -- roles belong to the whole server: another database's migration was faster
    when insufficient_privilege then
        raise notice 'no role {ROLE}: analytics stays off until an administrator creates it';
end
$$
"""


# An administrator who creates the role later calls this, as the owner of the database.
ADMIT = [
    f"""
    create function insight.admit() returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
    begin
        if exists (select from pg_roles where rolname = '{ROLE}') then
            grant usage on schema insight to {ROLE};
            grant select on all tables in schema insight to {ROLE};
            grant execute on function insight.scope(), insight.versions(), insight.shows_suspended() to {ROLE};
        end if;
    end
    $$
    """,
    "revoke all on function insight.admit() from public",
    "select insight.admit()",
]

# Everybody may execute nearly all functions of PostgreSQL, and only a superuser can change that. Where one migrates,
# those that act on more than their arguments become a privilege of those who need them: that is every volatile one but
# a few, and those that run a text as SQL, show what other sessions do, or use up transaction ids.
# Only a superuser can bound temporary files, too. Elsewhere `docs/analytics.md` says what holds instead.
CONFINE = f"""
do $$
declare
    function regprocedure;
begin
    if not (select rolsuper from pg_roles where rolname = current_user) then
        return;
    end if;
    for function in
        select oid::regprocedure from pg_proc
        where pronamespace = 'pg_catalog'::regnamespace and has_function_privilege('public', oid, 'execute')
          and prorettype <> all (array['trigger', 'event_trigger', 'internal', 'language_handler', 'fdw_handler',
                                       'index_am_handler', 'table_am_handler', 'tsm_handler']::regtype[])
          and (provolatile = 'v' and proname <> all (array[
                  'array_sample', 'array_shuffle', 'clock_timestamp', 'current_query', 'gen_random_uuid',
                  'pg_is_in_recovery', 'plpgsql_inline_handler', 'plpgsql_validator', 'random', 'random_normal',
                  'timeofday', 'uuidv4', 'uuidv7'])
               or proname ~ '_to_xml(schema|_and_xmlschema)?$'
               or proname in ('pg_stat_get_activity', 'pg_current_xact_id', 'txid_current'))
    loop
        execute format('revoke execute on function %s from public', function);
        execute format(
            'grant execute on function %s to {SERVER}, {WRITER}, pg_database_owner, pg_monitor, pg_read_all_data',
            function);
    end loop;
    begin
        alter role {ROLE} set temp_file_limit = '64MB';
    exception when internal_error then
        null;  -- updated concurrently: another database's migration was faster
    end;
end
$$
"""

# Everybody may make temporary tables, and so could the role of analytics. The owner of the trail keeps the right, which
# is verified and expired with them, and so does the operator, who verifies; nothing else of ours needs any. Only the
# owner of the database can take it away.
TEMPORARY = f"""
do $$
begin
    if pg_has_role((select datdba from pg_database where datname = current_database()), 'usage') then
        execute format(
            'grant temporary on database %I to %I', current_database(),
            (select pg_get_userbyid(relowner) from pg_class where oid = 'formulary.trace_event'::regclass));
        execute format('revoke temporary on database %I from public', current_database());
        execute format('grant temporary on database %I to {WRITER}', current_database());
    end if;
end
$$
"""

SESSIONS = 2
SETTINGS = (
    "log_min_messages = log",  # errors of callers go to callers: their texts quote values
    "log_min_error_statement = panic",
    "log_statement = none",
    "log_min_duration_statement = -1",
    "log_min_duration_sample = -1",
    "log_transaction_sample_rate = 0",
    "track_activities = off",  # what a process ran when it crashed is logged from there
)
CHANGES = (
    f"alter role {ROLE} connection limit {SESSIONS}",
    *(f"alter role {ROLE} set {setting}" for setting in SETTINGS),
)

BOUNDS = """
do $$
begin
    if exists (select from pg_roles where rolname = '{role}') then
        {change};
    end if;
exception
    when insufficient_privilege then
        raise notice 'an administrator has to run: {change}';
    when internal_error then
        null;  -- updated concurrently: another database's migration was faster
end
$$
"""
"""Few sessions of the role for SQL of callers, and none of its statements in the log of PostgreSQL.

PostgreSQL does not end every statement in time, so their number is bounded where all servers share it. Settings of the
log are a superuser's. Who may not set something here finds it in `docs/analytics.md`, and a server reports it.
"""


def _comment(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def upgrade() -> None:
    """Add to what is there; who may call functions of PostgreSQL changes where a superuser migrates."""
    op.execute("set local lock_timeout = '300ms'")
    for statement in (CREATE_ROLE, OWNED_SCHEMA, *INDEXES, *SCOPE):
        op.execute(statement)
    for view, (purpose, query, columns) in VIEWS.items():
        op.execute(f"create view insight.{view} ({', '.join(columns)}) with (security_barrier) as {query}")
        op.execute(f"comment on view insight.{view} is {_comment(purpose)}")
        for column, meaning in columns.items():
            op.execute(f"comment on column insight.{view}.{column} is {_comment(meaning)}")
    for statement in (*ADMIT, *FILL, CONFINE, TEMPORARY):
        op.execute(statement)
    for change in CHANGES:
        op.execute(BOUNDS.format(role=ROLE, change=change))
