"""Runs: the rows of invocations, what decides about them (contracts, approvals), and what came of them."""

from alembic import op

revision = "0005"
down_revision = "0004"

SERVER = "formulary_server"
WRITER = "formulary_writer"
_ACTIVE = "phase in ('Pending', 'AwaitingApproval', 'Running')"

TABLES = [
    "alter table formulary.request_context add column target jsonb not null default '{}'",
    # What a run was asked for and what came of it. Values of sensitive parameters are digests here.
    f"""
    create table formulary.invocation (
        id text collate "C" primary key,
        source text not null check (source in ('server', 'cluster')),
        namespace text collate "C" not null,
        object_name text collate "C" not null,
        object_uid text not null default '',
        workflow_namespace text collate "C" not null,
        workflow_name text collate "C" not null,
        workflow_version text collate "C" not null,
        version_id text collate "C" not null,
        document jsonb not null,
        input jsonb not null,
        target jsonb not null,
        facts jsonb not null,
        remediation_id text not null default '',
        analysis text not null default '',
        search_id uuid,
        requester text not null,
        timeout_seconds double precision not null check (timeout_seconds > 0),
        idempotency_key text not null default '',
        request_hash text not null,
        salt text not null,
        trace_id text collate "C" not null,
        dry_run boolean not null,
        degraded boolean not null default false,
        phase text not null check ({_ACTIVE} or phase in ('Succeeded', 'Failed', 'TimedOut', 'Cancelled')),
        reason text not null,
        message text not null default '',
        decision jsonb not null,
        outputs jsonb not null default '{{}}',
        manifest jsonb not null default '{{}}',
        reference jsonb not null default '{{}}',
        nonce text not null default replace(gen_random_uuid()::text, '-', ''),
        revision bigint not null default 1,
        created_at timestamptz not null default clock_timestamp(),
        started_at timestamptz,
        finished_at timestamptz
    )
    """,
    """
    create unique index invocation_idempotency on formulary.invocation (requester, idempotency_key)
    where idempotency_key <> ''
    """,
    f"create index invocation_active on formulary.invocation (created_at) where {_ACTIVE}",
    "create index invocation_object on formulary.invocation (namespace, object_name, created_at desc)",
    "create index invocation_requester on formulary.invocation (requester, created_at)",
    "create index invocation_outcome on formulary.invocation (version_id) where finished_at is not null",
    "create index invocation_target on formulary.invocation (workflow_namespace, workflow_name, finished_at)",
    # Values of sensitive parameters, from the call until the operator has put them where the run reads them.
    """
    create table formulary.invocation_secret (
        invocation_id text collate "C" primary key references formulary.invocation on delete cascade,
        content jsonb not null
    )
    """,
    """
    create table formulary.governance_contract (
        namespace text collate "C" not null,
        name text collate "C" not null,
        uid text not null,
        spec jsonb not null,
        changed_at timestamptz not null default now(),
        primary key (namespace, name)
    )
    """,
    """
    create table formulary.invocation_approval (
        uid text primary key,
        source text not null check (source in ('server', 'cluster')),
        invocation_id text collate "C" not null,
        namespace text collate "C" not null,
        name text collate "C" not null,
        decision text not null check (decision in ('Approve', 'Reject')),
        approver text not null,
        reason text not null default '',
        at timestamptz not null default clock_timestamp()
    )
    """,
    "create index invocation_approval_of on formulary.invocation_approval (invocation_id)",
    # Who created an object, as the API server told the admission webhook.
    """
    create table formulary.admission_record (
        uid text primary key,
        resource text not null,
        namespace text collate "C" not null,
        name text collate "C" not null,
        username text not null,
        at timestamptz not null default clock_timestamp()
    )
    """,
    # Who can run something, and with what; written again and again by whoever is alive.
    """
    create table formulary.executor (
        name text primary key,
        engines text[] not null,
        at timestamptz not null default clock_timestamp()
    )
    """,
    """
    create table formulary.workflow_outcome (
        version_id text collate "C" primary key,
        succeeded integer not null,
        failed integer not null,
        median_seconds double precision
    )
    """,
]

# The server decides about runs that it may not read.
FUNCTIONS = [
    """
    create function formulary.recent_failures(
        in_namespace text, workflow text, on_target jsonb, within interval
    ) returns integer
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select count(*)::integer from formulary.invocation
        where workflow_namespace = in_namespace and workflow_name = workflow and target = on_target
          and phase in ('Failed', 'TimedOut') and started_at is not null
          and not dry_run and not degraded
          and finished_at > clock_timestamp() - within
    $$
    """,
    "revoke all on function formulary.recent_failures(text, text, jsonb, interval) from public",
    f"grant execute on function formulary.recent_failures(text, text, jsonb, interval) to {SERVER}, {WRITER}",
    # The newest choice of this version in a trace: whether it gives reasons, and how sure it was.
    """
    create function formulary.selection_of(in_trace text, version text)
    returns table (reasoned boolean, confidence double precision)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select length(trim(coalesce(payload -> 'arguments' ->> 'reasoning', ''))) > 0,
               (payload -> 'arguments' ->> 'confidence')::double precision
        from (
            select seq, body::jsonb -> 'payload' as payload from formulary.trace_event
            where trace_id = in_trace and kind = 'selection'
        ) as chosen
        where payload -> 'result' ->> 'version_id' = version and payload ->> 'outcome' = 'ok'
        order by seq desc limit 1
    $$
    """,
    "revoke all on function formulary.selection_of(text, text) from public",
    f"grant execute on function formulary.selection_of(text, text) to {SERVER}, {WRITER}",
]

TENANT_TABLES = ("invocation", "invocation_secret", "governance_contract", "invocation_approval")

_NAMED = "current_setting('formulary.invocation', true)"
_CALLER = "current_setting('formulary.caller', true)"

ROW_SECURITY = [
    *(
        statement
        for table in TENANT_TABLES
        for statement in (
            f"alter table formulary.{table} enable row level security",
            f"alter table formulary.{table} force row level security",
            f"create policy writer on formulary.{table} to {WRITER} using (true) with check (true)",
        )
    ),
    # Functions that run as the owner count earlier failures; forced row-level security holds for the owner as well.
    "create policy owner_counts on formulary.invocation for select to current_user using (true)",
    # A run is read by its id or as one's own; whether the caller may is checked before the answer leaves.
    f"""
    create policy server_reads on formulary.invocation for select to {SERVER}
    using (id = {_NAMED} or requester = {_CALLER})
    """,
    f"""
    create policy server_adds on formulary.invocation for insert to {SERVER}
    with check (source = 'server' and requester = {_CALLER})
    """,
    f"""
    create policy server_adds on formulary.invocation_secret for insert to {SERVER}
    with check (invocation_id = {_NAMED})
    """,
    f"""
    create policy server_reads on formulary.invocation_approval for select to {SERVER}
    using (invocation_id = {_NAMED})
    """,
    f"""
    create policy server_adds on formulary.invocation_approval for insert to {SERVER}
    with check (source = 'server' and invocation_id = {_NAMED} and approver = {_CALLER})
    """,
    f"""
    create policy server_reads on formulary.governance_contract for select to {SERVER}
    using (namespace = any (string_to_array(current_setting('formulary.namespaces', true), ',')))
    """,
]

GRANTS = [
    f"grant execute on function formulary.search_recorded(uuid, text, text) to {WRITER}",
    f"grant select, insert on formulary.invocation, formulary.invocation_approval to {SERVER}",
    f"grant insert on formulary.invocation_secret to {SERVER}",
    f"grant select on formulary.governance_contract, formulary.executor, formulary.workflow_outcome to {SERVER}",
    f"grant select, insert, update on formulary.invocation, formulary.executor, formulary.workflow_outcome to {WRITER}",
    f"grant select, insert, update, delete on formulary.invocation_secret, formulary.governance_contract, "
    f"formulary.invocation_approval to {WRITER}",
    f"grant select, insert on formulary.admission_record to {WRITER}",
]


def upgrade() -> None:
    """Add to what is there."""
    for statement in (*TABLES, *FUNCTIONS, *ROW_SECURITY, *GRANTS):
        op.execute(statement)
