"""Incidents from alerts: the sources that send them, each alert with what it is about, and its episodes.

The operator and the loader write sources. The server stores what a source sends, and nothing that the source may not
speak for. What an alert demands is not stored: that is what the owners of its target demand when somebody asks.
"""

from alembic import op

revision = "0042"
down_revision = "0041"

SERVER = "formulary_server"
WRITER = "formulary_writer"

# Who migrates need not be who owns what there is: a superuser may.
AS_OWNER = """
do $$
begin
    execute format('set local role %I', (
        select pg_get_userbyid(relowner) from pg_class where oid = 'formulary.request_context'::regclass));
end
$$
"""

TABLES = [
    # `token_digest` proves a bearer token, `sealed_secret` a signature. `problem` is why an alert became nothing last.
    """
    create table formulary.incident_source (
        namespace text collate "C" not null,
        name text collate "C" not null,
        spec jsonb not null,
        namespaces text[] collate "C" not null,
        token_digest text not null default '',
        sealed_secret bytea,
        source text not null,
        problem text not null default '',
        problem_at timestamptz,
        reported_at timestamptz,
        received_at timestamptz,
        changed_at timestamptz not null default now(),
        primary key (namespace, name)
    )
    """,
    # `namespace` is that of the target, or of the source where the target is in none. `starts_at` is when the newest
    # episode began, as the sender says.
    """
    create table formulary.alert (
        source_namespace text collate "C" not null,
        source_name text collate "C" not null,
        fingerprint text collate "C" not null,
        remediation_id text collate "C" not null,
        namespace text collate "C" not null,
        target jsonb not null,
        signal_name text not null,
        severity text not null,
        context jsonb not null,
        labels jsonb not null,
        annotations jsonb not null,
        firing boolean not null,
        starts_at timestamptz not null,
        episode integer not null,
        messages bigint not null default 1,
        changed_at timestamptz not null default now(),
        seen_at timestamptz not null default now(),
        primary key (source_namespace, source_name, fingerprint)
    )
    """,
    "create index alert_remediation on formulary.alert (remediation_id)",
    "create index alert_changed on formulary.alert (changed_at, (source_namespace || '/' || source_name))",
    """
    create table formulary.alert_episode (
        source_namespace text collate "C" not null,
        source_name text collate "C" not null,
        fingerprint text collate "C" not null,
        number integer not null,
        began_at timestamptz not null,
        ended_at timestamptz,
        primary key (source_namespace, source_name, fingerprint, number),
        foreign key (source_namespace, source_name, fingerprint) references formulary.alert on delete cascade
    )
    """,
]

_NAMED = "current_setting('formulary.incident_source', true)"
_OF_SOURCE = f"source_namespace || '/' || source_name = (select {_NAMED})"
_MAY_SPEAK = f"""
    {_OF_SOURCE} and exists (
        select from formulary.incident_source as source
        where source.namespace = source_namespace and source.name = source_name
          and source.namespaces && array['*', case
              when target ->> 'kind' = 'Namespace' then target ->> 'name'
              else coalesce(nullif(target ->> 'namespace', ''), '*') end])
"""
_READABLE = """
    remediation_id = any (string_to_array(current_setting('formulary.remediation_ids', true), chr(31)))
    or namespace = any ((select string_to_array(current_setting('formulary.incidents_read', true), ','))::text[])
    or (select current_setting('formulary.incidents_read', true)) = '*'
"""
_OF_READABLE = """
    exists (select from formulary.alert as alert
            where (alert.source_namespace, alert.source_name, alert.fingerprint)
                = (alert_episode.source_namespace, alert_episode.source_name, alert_episode.fingerprint))
"""

SECURITY = [
    *(
        statement
        for table in ("incident_source", "alert", "alert_episode")
        for statement in (
            f"alter table formulary.{table} enable row level security",
            f"alter table formulary.{table} force row level security",
            f"create policy writer on formulary.{table} to {WRITER} using (true) with check (true)",
            f"grant select, insert, update, delete on formulary.{table} to {WRITER}",
            # A deletion follows the reference as the owner.
            f"create policy owner_keeps on formulary.{table} to current_user using (true) with check (true)",
        )
    ),
    # A session of the server knows the one source that it names.
    f"create policy server on formulary.incident_source for select to {SERVER} "
    f"using (namespace || '/' || name = (select {_NAMED}))",
    f"create policy server_notes on formulary.incident_source for update to {SERVER} "
    f"using (namespace || '/' || name = (select {_NAMED}))",
    f"grant select on formulary.incident_source to {SERVER}",
    f"grant update (problem, problem_at, received_at) on formulary.incident_source to {SERVER}",
    f"create policy server on formulary.alert for select to {SERVER} using ({_READABLE} or {_OF_SOURCE})",
    f"create policy server_adds on formulary.alert for insert to {SERVER} with check ({_MAY_SPEAK})",
    f"create policy server_notes on formulary.alert for update to {SERVER} using ({_OF_SOURCE}) "
    f"with check ({_MAY_SPEAK})",
    f"create policy server_forgets on formulary.alert for delete to {SERVER} using ({_OF_SOURCE} and not firing)",
    f"grant select, insert, update, delete on formulary.alert to {SERVER}",
    f"create policy server on formulary.alert_episode for select to {SERVER} using ({_OF_READABLE} or {_OF_SOURCE})",
    f"create policy server_adds on formulary.alert_episode for insert to {SERVER} with check ({_OF_SOURCE})",
    f"create policy server_notes on formulary.alert_episode for update to {SERVER} using ({_OF_SOURCE})",
    f"grant select, insert, update on formulary.alert_episode to {SERVER}",
]


KNOWN = """
    create or replace function formulary.known_namespaces(at_most integer) returns setof text
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select namespace from (
            select namespace from request_context
            union select namespace from alert
            union select namespace from sealed_constraints
            union select namespace from invocation
            union select namespace from governance_contract
            union select namespace from tenant
        ) as known where namespace <> '' order by namespace limit at_most
    $$
"""


def upgrade() -> None:
    """Add the tables; one function knows their namespaces, too."""
    op.execute(AS_OWNER)
    for statement in (*TABLES, *SECURITY, KNOWN):
        op.execute(statement)
