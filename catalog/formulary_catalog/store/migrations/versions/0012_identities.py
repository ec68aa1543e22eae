"""Who created an object: all that a question for the rights of that user needs, beside the name."""

from alembic import op

revision = "0012"
down_revision = "0011"

STATEMENTS = [
    # A constant default rewrites nothing; programs of an older release go on without the column.
    "alter table formulary.admission_record add column identity jsonb not null default '{}'",
]


def upgrade() -> None:
    """Add the column."""
    for statement in STATEMENTS:
        op.execute(statement)
