"""What a waiting run would run, for whoever approves it; and the content that an approval counts for."""

from alembic import op

revision = "0013"
down_revision = "0012"

STATEMENTS = [
    "alter table formulary.invocation add column content jsonb not null default '{}'",
    # Empty: given before the content was known; it counts for the content that is rendered next.
    "alter table formulary.invocation_approval add column digest text not null default ''",
]


def upgrade() -> None:
    """Add columns with constant defaults, which rewrites nothing."""
    for statement in STATEMENTS:
        op.execute(statement)
