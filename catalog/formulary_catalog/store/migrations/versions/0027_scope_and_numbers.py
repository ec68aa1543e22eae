"""The scope of `insight` without the versions that an incident allows, folded signals of alerts, indexes to count with.

A view asks for the scope in many places, and each time its JSON is read. The versions may be 100,000; now the scope has
their digest, and a view reads them where it needs them. Earlier servers put them into the scope: that still holds.
"""

from importlib import import_module

from alembic import op

revision = "0027"
down_revision = "0026"

ROLE = "formulary_insight"
_VIEWS = import_module("formulary_catalog.store.migrations.versions.0021_insight").VIEWS

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
ADMIT = f"""
create or replace function insight.admit() returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from pg_roles where rolname = '{ROLE}') then
        grant usage on schema insight to {ROLE};
        grant select on all tables in schema insight to {ROLE};
        grant execute on function insight.scope(), insight.versions() to {ROLE};
    end if;
end
$$
"""
INDEXES = (
    # Signals and statuses are counted for all of a catalog: here without vectors and documents.
    "create index workflow_search_signals on formulary.workflow_search (signal_type, tenant_id)",
    """
    create index workflow_version_unserved on formulary.workflow_version (tenant_id, status)
    where status not in ('Active', 'Deleted')
    """,
)
_IN_THE_SCOPE = "select unnest((insight.scope()).versions)"
_LAST_OF_ALERTS = "incident.gone_at\n"


def upgrade() -> None:
    """Replace the views by such that read the versions apart; nothing that they had is gone."""
    op.execute(VERSIONS)
    op.execute("revoke all on function insight.versions() from public")
    for view, (_, query, columns) in _VIEWS.items():
        names = list(columns)
        query = query.replace(_IN_THE_SCOPE, "select insight.versions()")
        if view == "alerts":
            names.append("signal_type")
            folded = "lower(btrim(incident.context ->> 'signal_name'))"
            query = query.replace(_LAST_OF_ALERTS, f"{_LAST_OF_ALERTS.rstrip()}, {folded}\n")
        op.execute(f"create or replace view insight.{view} ({', '.join(names)}) with (security_barrier) as {query}")
    op.execute(
        "comment on column insight.alerts.signal_type is "
        "'The signal, folded to lower case: = any (signal_types) of catalog joins.'"
    )
    for statement in (ADMIT, "select insight.admit()", *INDEXES):
        op.execute(statement)
