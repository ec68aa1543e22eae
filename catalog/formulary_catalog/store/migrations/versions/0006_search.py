"""Search at scale: what a filtered, exact ranking reads lies in one covering index; texts are indexed by field."""

from alembic import op

revision = "0006"
down_revision = "0005"

# An index row holds at most 2,704 bytes, of which a vector of 384 floats takes 1,544. Rows whose labels would not fit
# beside it are not `slim`: they are found through workflow_search_bulky and read from the table, and so are rows of
# before, until they are written again. What is measured is the text of the labels; 600 of it stay below 1,000 bytes in
# the index, headers and padding included.
SLIM = """
create function formulary.mark_slim() returns trigger language plpgsql set search_path = formulary, pg_temp as $$
begin
    new.slim := octet_length(concat(
            new.signal_type, new.model_id, new.signal_types, new.severity, new.environment, new.component,
            new.priority, new.risk_tolerance, new.business_category, new.cluster))
        + 8 * (cardinality(new.signal_types) + cardinality(new.severity) + cardinality(new.environment)
            + cardinality(new.component) + cardinality(new.priority) + cardinality(new.risk_tolerance)
            + cardinality(new.business_category) + cardinality(new.cluster))
        + 2 * octet_length(concat(new.custom, new.detected)) <= 600;
    return new;
end
$$
"""

STATEMENTS = [
    "alter table formulary.workflow_search add column slim boolean not null default false",
    SLIM,
    """
    create trigger mark_slim before insert or update on formulary.workflow_search
    for each row execute function formulary.mark_slim()
    """,
    """
    create index workflow_search_covering on formulary.workflow_search (tenant_id, leading_row, signal_type) include (
        version_id, signal_types, severity, environment, component, priority, risk_tolerance,
        business_category, cluster, custom, detected, model_id, emb) where slim
    """,
    """
    create index workflow_search_bulky on formulary.workflow_search (tenant_id, leading_row, signal_type)
    where not slim
    """,
    """
    create index workflow_search_clusters on formulary.workflow_search (tenant_id)
    where leading_row and cardinality(cluster) > 0
    """,
    # As a subquery it is evaluated once for a scan, not for each row.
    *(
        f"alter policy server on formulary.{table} "
        "using (tenant_id = any ((select formulary.visible_tenants())::integer[]))"
        for table in ("workflow_version", "workflow_search")
    ),
    # Which other namespaces have a workflow of that name is asked for each hit.
    "create index workflow_version_active on formulary.workflow_version (name) where status = 'Active'",
]


def upgrade() -> None:
    """Add the index and the column that says which rows are in it."""
    for statement in STATEMENTS:
        op.execute(statement)
