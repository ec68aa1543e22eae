"""Sensitive input of runs is stored encrypted. What an older server stored stays readable until its run is over."""

from alembic import op

revision = "0015"
down_revision = "0014"

STATEMENTS = [
    "alter table formulary.invocation_secret add column sealed bytea",
    "alter table formulary.invocation_secret alter column content drop not null",
]


def upgrade() -> None:
    """Add to what is there. Older servers go on writing `content`."""
    for statement in STATEMENTS:
        op.execute(statement)
