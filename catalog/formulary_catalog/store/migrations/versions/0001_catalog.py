"""The catalog: workflow versions, the search table, request contexts, the audit trail, and who may touch what."""

from alembic import op

revision = "0001"
down_revision = None

SERVER = "formulary_server"
WRITER = "formulary_writer"

ROLES = """
do $$
begin
    if not exists (select from pg_roles where rolname = '{role}') then
        create role {role} login;
    end if;
exception when duplicate_object or unique_violation then
    null;  -- roles belong to the whole server: another database's migration was faster
end
$$
"""

MEMBERSHIP = """
do $$
begin
    if not pg_has_role(current_user, '{role}', 'SET') then
        execute format('grant {role} to %I', current_user);
    end if;
end
$$
"""

TABLES = [
    """
    create table formulary.tenant (
        id integer generated always as identity primary key,
        namespace text collate "C" not null unique
    )
    """,
    # The whole manifest of every version ever accepted; at most one per name is current.
    """
    create table formulary.workflow_version (
        version_id text collate "C" primary key,
        tenant_id integer not null references formulary.tenant,
        namespace text collate "C" not null,
        name text collate "C" not null,
        version text collate "C" not null,
        content_hash text collate "C" not null,
        text_hash text collate "C" not null,
        index_hash text collate "C" not null,
        status text collate "C" not null check (status in ('Active', 'Disabled', 'Superseded', 'Deleted')),
        source text not null,
        document jsonb not null,
        created_at timestamptz not null default now(),
        changed_at timestamptz not null default now()
    )
    """,
    """
    create unique index workflow_version_current on formulary.workflow_version (tenant_id, name)
    where status in ('Active', 'Disabled')
    """,
    "create index workflow_version_history on formulary.workflow_version (tenant_id, name, version)",
    """
    create table formulary.embedding (
        text_hash text collate "C" not null,
        model_id text collate "C" not null,
        vector vector(384) not null,
        created_at timestamptz not null default now(),
        primary key (text_hash, model_id)
    )
    """,
    # What a search reads: active versions without manifests, a row per signal type so that an index can lead with it.
    # Label values are folded by the domain; the leading row stands for the workflow where no single signal type is
    # asked for. The vector is not in the index: with label lists beside it a row could pass the limit of 2,704 bytes
    # and make a valid workflow fail.
    """
    create table formulary.workflow_search (
        version_id text collate "C" not null references formulary.workflow_version on delete cascade,
        tenant_id integer not null references formulary.tenant,
        signal_type text collate "C" not null,
        signal_name text collate "C" not null,
        leading_row boolean not null,
        namespace text collate "C" not null,
        name text collate "C" not null,
        signal_types text[] collate "C" not null,
        severity text[] collate "C" not null,
        environment text[] collate "C" not null,
        component text[] collate "C" not null,
        priority text[] collate "C" not null,
        risk_tolerance text[] collate "C" not null,
        business_category text[] collate "C" not null,
        cluster text[] collate "C" not null,
        custom jsonb not null,
        detected jsonb not null,
        exclusion_text text collate "C" not null,
        lexemes tsvector not null,
        model_id text collate "C",
        emb vector(384),
        primary key (version_id, signal_type)
    )
    """,
    "alter table formulary.workflow_search alter column emb set storage plain",
    "alter table formulary.workflow_search set (toast_tuple_target = 8160)",
    "create index workflow_search_signal on formulary.workflow_search (tenant_id, signal_type)",
    "create index workflow_search_leading on formulary.workflow_search (tenant_id) where leading_row",
    """
    create table formulary.request_context (
        namespace text collate "C" not null,
        name text collate "C" not null,
        remediation_id text collate "C" not null,
        context jsonb not null,
        changed_at timestamptz not null default now(),
        primary key (namespace, name)
    )
    """,
    "create index request_context_remediation on formulary.request_context (remediation_id)",
    """
    create table formulary.audit_event (
        id bigint generated always as identity primary key,
        at timestamptz not null default clock_timestamp(),
        action text not null,
        caller text not null,
        remediation_id text,
        analysis text,
        search_id uuid,
        arguments jsonb not null,
        result jsonb not null,
        mode text,
        outcome text not null,
        duration_ms double precision not null
    )
    """,
    "create index audit_event_search on formulary.audit_event (search_id) where search_id is not null",
    "create index audit_event_remediation on formulary.audit_event (remediation_id) where remediation_id is not null",
]

# Kept as functions so that the policies stay one line and every statement starts the same way.
FUNCTIONS = [
    """
    create function formulary.visible_tenants() returns integer[] language sql stable parallel safe as
    $$ select string_to_array(nullif(current_setting('formulary.tenants', true), ''), ',')::integer[] $$
    """,
    # Enters a transaction as a caller who sees these namespaces (null: all), and tells in the same round trip
    # whether a word is in use as a signal type there.
    """
    create function formulary.enter(namespaces text[], signal_word text, folded_word text) returns boolean
    language plpgsql set search_path = formulary, pg_temp as $$
    begin
        perform set_config('formulary.tenants', coalesce((
            select string_agg(tenant.id::text, ',') from formulary.tenant
            where namespaces is null or tenant.namespace = any (namespaces)), ''), true);
        return exists (
            select from formulary.workflow_search
            where signal_type = folded_word and signal_name = signal_word);
    end
    $$
    """,
    """
    create function formulary.search_recorded(wanted uuid) returns boolean
    language sql stable security definer set search_path = formulary, pg_temp as
    $$ select exists (select from formulary.audit_event where search_id = wanted and action = 'search') $$
    """,
    "revoke all on function formulary.search_recorded(uuid) from public",
]

TENANT_TABLES = ("workflow_version", "workflow_search")

ROW_SECURITY = [
    *(
        statement
        for table in (*TENANT_TABLES, "request_context")
        for statement in (
            f"alter table formulary.{table} enable row level security",
            f"alter table formulary.{table} force row level security",
            f"create policy writer on formulary.{table} to {WRITER} using (true) with check (true)",
        )
    ),
    *(
        f"create policy server on formulary.{table} for select to {SERVER} "
        "using (tenant_id = any (formulary.visible_tenants()))"
        for table in TENANT_TABLES
    ),
    # A context belongs to whoever can name its incident: only the rows that the session names are readable.
    f"""
    create policy server on formulary.request_context for select to {SERVER} using (
        remediation_id = any (string_to_array(current_setting('formulary.remediation_ids', true), chr(31)))
        or (namespace = split_part(current_setting('formulary.analysis', true), '/', 1)
            and name = split_part(current_setting('formulary.analysis', true), '/', 2)))
    """,
]

GRANTS = [
    f"grant usage on schema formulary to {SERVER}, {WRITER}",
    f"grant select on formulary.tenant, formulary.workflow_version, formulary.workflow_search, "
    f"formulary.request_context to {SERVER}",
    f"grant select on formulary.alembic_version to {SERVER}, {WRITER}",
    f"grant insert on formulary.audit_event to {SERVER}, {WRITER}",
    f"grant execute on function formulary.search_recorded(uuid) to {SERVER}",
    f"grant select, insert, update, delete on formulary.tenant, formulary.workflow_version, "
    f"formulary.workflow_search, formulary.embedding, formulary.request_context to {WRITER}",
]


def upgrade() -> None:
    """Create everything."""
    for role in (SERVER, WRITER):
        op.execute(ROLES.format(role=role))
        op.execute(MEMBERSHIP.format(role=role))
    for statement in (*TABLES, *FUNCTIONS, *ROW_SECURITY, *GRANTS):
        op.execute(statement)
