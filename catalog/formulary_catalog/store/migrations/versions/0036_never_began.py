"""A run for which nothing was ever created is no failure of its workflow: it changed nothing."""

from alembic import op

revision = "0036"
down_revision = "0035"

STATEMENTS = [
    """
    create or replace function formulary.recent_failures(
        in_namespace text, workflow text, on_target jsonb, within interval
    ) returns integer
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select count(*)::integer from formulary.invocation
        where workflow_namespace = in_namespace and workflow_name = workflow and target = on_target
          and phase in ('Failed', 'TimedOut') and started_at is not null and reference <> '{}'
          and not dry_run and not degraded
          and finished_at > clock_timestamp() - within
    $$
    """,
]


def upgrade() -> None:
    """Replace the function; its owner and rights stay."""
    for statement in STATEMENTS:
        op.execute(statement)
