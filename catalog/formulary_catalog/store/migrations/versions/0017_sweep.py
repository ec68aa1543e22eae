"""What a sweep of an operator refused to remove, until somebody allows it; an index of denied runs to tell of."""

from alembic import op

revision = "0017"
down_revision = "0016"

STATEMENTS = [
    """
    create table formulary.sweep_refusal (
        operator text collate "C" primary key, id text not null, served integer not null, missing jsonb not null,
        refused_at timestamptz not null default now(), allowed_at timestamptz
    )
    """,
    "grant select, insert, update, delete on formulary.sweep_refusal to formulary_writer",
    """
    create index invocation_untold on formulary.invocation (created_at)
    where source = 'server' and phase = 'Failed' and reason = 'Denied' and object_uid = ''
    """,
]


def upgrade() -> None:
    """Create the table; what existed before is not touched."""
    for statement in STATEMENTS:
        op.execute(statement)
