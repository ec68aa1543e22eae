"""Who created an object and who wrote a workflow: all that a question for the rights of that user needs."""

from alembic import op

WRITER = "formulary_writer"

revision = "0012"
down_revision = "0011"

STATEMENTS = [
    # A constant default rewrites nothing; programs of an older release go on without the column.
    "alter table formulary.admission_record add column identity jsonb not null default '{}'",
    """
    create table formulary.workflow_author (
        namespace text collate "C" not null,
        version_id text collate "C" not null,
        identity jsonb not null,
        at timestamptz not null default clock_timestamp(),
        primary key (namespace, version_id)
    )
    """,
    f"grant select, insert, update on formulary.workflow_author to {WRITER}",
]


def upgrade() -> None:
    """Add to what is there."""
    for statement in STATEMENTS:
        op.execute(statement)
