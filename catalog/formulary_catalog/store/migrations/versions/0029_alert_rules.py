"""Alerting rules of the PrometheusRule objects of a cluster, to be compared with what the catalog has remedies for."""

from alembic import op

revision = "0029"
down_revision = "0028"

SERVER = "formulary_server"
WRITER = "formulary_writer"

STATEMENTS = [
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


def upgrade() -> None:
    """Add the table; the operator fills it."""
    for statement in STATEMENTS:
        op.execute(statement)
