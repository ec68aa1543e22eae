"""Runs that are over, and records of who created them, may be deleted once they are old."""

from alembic import op

revision = "0018"
down_revision = "0017"

STATEMENTS = [
    "grant delete on formulary.invocation, formulary.admission_record to formulary_writer",
    "create index invocation_finished on formulary.invocation (finished_at, id) where finished_at is not null",
]


def upgrade() -> None:
    """Grant what the operator needs for that; nothing is deleted here."""
    for statement in STATEMENTS:
        op.execute(statement)
