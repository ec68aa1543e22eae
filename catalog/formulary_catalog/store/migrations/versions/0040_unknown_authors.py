"""The server knows what an operator does with workflows of unknown authors, and whether the author of one is known.

Otherwise it promises runs that the operator then holds back or refuses. Who the author is, it still cannot read.
"""

from alembic import op

revision = "0040"
down_revision = "0039"

SERVER = "formulary_server"

STATEMENTS = [
    # Operators of an older release announce neither: they watch every namespace then, and nothing follows from authors.
    """
    alter table formulary.executor
        add column namespaces text[] collate "C" not null default '{}',
        add column unknown_authors text not null default 'run' check (unknown_authors in ('run', 'approve', 'refuse'))
    """,
    """
    create function formulary.author_known(in_namespace text, version text) returns boolean
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select exists (
            select from formulary.workflow_author
            where namespace = in_namespace and version_id = version and identity ->> 'username' <> '')
    $$
    """,
    "revoke all on function formulary.author_known(text, text) from public",
    f"grant execute on function formulary.author_known(text, text) to {SERVER}",
]


def upgrade() -> None:
    """Add columns with constant defaults, which rewrites nothing, and the function."""
    for statement in STATEMENTS:
        op.execute(statement)
