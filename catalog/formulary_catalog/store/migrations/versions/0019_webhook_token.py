"""The token from which the secret paths of the admission webhook follow: one for all replicas of the operator."""

from alembic import op

revision = "0019"
down_revision = "0018"

STATEMENTS = [
    """
    create table formulary.webhook_token (
        only_one boolean primary key default true check (only_one),
        token text not null check (token ~ '^[0-9a-f]{64}$'),
        created_at timestamptz not null default now()
    )
    """,
    "grant select, insert on formulary.webhook_token to formulary_writer",
]


def upgrade() -> None:
    """Create the table; the first operator that needs the token makes it."""
    for statement in STATEMENTS:
        op.execute(statement)
