"""What a cluster adds: contexts that outlive their AIAnalysis for a while, and the object a workflow belongs to."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add columns; what is stored so far came from files."""
    op.execute("alter table formulary.workflow_version add column owner text not null default ''")
    op.execute("alter table formulary.request_context add column source text not null default 'file'")
    op.execute("alter table formulary.request_context add column gone_at timestamptz")
    op.execute("create index request_context_gone on formulary.request_context (gone_at) where gone_at is not null")
    # Which start of which operator leads; see store/leadership.
    op.execute(
        'create table formulary.leadership (name text collate "C" primary key, epoch bigint not null)',
    )
    op.execute("grant select, insert, update on formulary.leadership to formulary_writer")
