"""Few sessions of the role for SQL of callers, and none of its statements in the log of PostgreSQL.

PostgreSQL does not end every statement in time, so their number is bounded where all servers share it. Settings of the
log are a superuser's. Who may not set something here finds it in `docs/analytics.md`, and a server reports it.
"""

from alembic import op

revision = "0039"
down_revision = "0038"

ROLE = "formulary_insight"
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


def upgrade() -> None:
    """Set what the user who migrates may set. A role belongs to the whole server: another migration may be faster."""
    for change in CHANGES:
        op.execute(
            f"""
            do $$
            begin
                if exists (select from pg_roles where rolname = '{ROLE}') then
                    {change};
                end if;
            exception
                when insufficient_privilege then
                    raise notice 'an administrator has to run: {change}';
                when internal_error then
                    null;  -- updated concurrently
            end
            $$
            """
        )
