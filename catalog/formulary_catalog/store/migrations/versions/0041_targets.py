"""A run and a choice are bound to the target of the search that found their workflow.

The server asks for the target of one search of one caller; it reads nothing else of the trail for that.
"""

from alembic import op

revision = "0041"
down_revision = "0040"

SERVER, WRITER = "formulary_server", "formulary_writer"

STATEMENTS = [
    """
    create function formulary.searched_target(wanted uuid, by_caller text) returns text
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select body::jsonb #>> '{payload,target}' from formulary.trace_event
        where search_id = wanted and kind = 'search' and caller = by_caller
          and body::jsonb #>> '{payload,outcome}' = 'ok'
        order by seq limit 1
    $$
    """,
    "revoke all on function formulary.searched_target(uuid, text) from public",
    f"grant execute on function formulary.searched_target(uuid, text) to {SERVER}, {WRITER}",
]


def upgrade() -> None:
    """Add the function."""
    for statement in STATEMENTS:
        op.execute(statement)
