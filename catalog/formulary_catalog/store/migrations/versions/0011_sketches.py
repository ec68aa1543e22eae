"""Sketches: the signs of a vector's numbers, in an index that says which of many workflows are worth comparing."""

from alembic import op

revision = "0011"
down_revision = "0010"

STATEMENTS = [
    # 48 bytes for the 1,536 of the vector. Generated, so that programs of an older release keep it right as well.
    """
    alter table formulary.workflow_search
    add column sketch bit(384) generated always as (binary_quantize(emb)::bit(384)) stored
    """,
    "alter table formulary.workflow_search alter column sketch set storage plain",
    "drop index formulary.workflow_search_leading",
    """
    create index workflow_search_leading on formulary.workflow_search (tenant_id)
    include (version_id, model_id, sketch) where leading_row
    """,
]


def upgrade() -> None:
    """Add the column, which rewrites the table, and put it into the index of leading rows."""
    for statement in STATEMENTS:
        op.execute(statement)
