"""When the words of a version were derived anew: a server remembers them, since a version id stands for its content."""

from alembic import op

revision = "0008"
down_revision = "0007"

SERVER = "formulary_server"
WRITER = "formulary_writer"

STATEMENTS = [
    # One row: the number of the transaction that derived words anew, which no other one has, not even after a failover.
    # In a table and not in a sequence, so that nobody sees it before what it stands for.
    """
    create table formulary.word_revision (
        revision bigint not null,
        only_row boolean primary key default true check (only_row)
    )
    """,
    "insert into formulary.word_revision (revision) values (0)",
    f"grant select on formulary.word_revision to {SERVER}",
    f"grant select, update on formulary.word_revision to {WRITER}",
    """
    create function formulary.note_word_revision() returns trigger
    language plpgsql set search_path = formulary, pg_temp as $$
    begin
        update word_revision set revision = pg_current_xact_id()::text::bigint
        where revision <> pg_current_xact_id()::text::bigint;
        return null;
    end
    $$
    """,
    # Another release may derive words in another way: of a version that is there, or of one that comes back.
    """
    create trigger words_derived_anew after update of index_hash on formulary.workflow_version
    for each row when (old.index_hash <> new.index_hash) execute function formulary.note_word_revision()
    """,
]


def upgrade() -> None:
    """Add the revision and what sets it."""
    for statement in STATEMENTS:
        op.execute(statement)
