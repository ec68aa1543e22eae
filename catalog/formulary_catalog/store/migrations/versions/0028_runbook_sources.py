"""Where runbooks come from, which workflows the texts of past incidents mention, and words beside the vectors."""

from alembic import op

revision = "0028"
down_revision = "0027"

WRITER = "formulary_writer"
MENTIONS = 7_204_113_628
"""The lock of `store/knowledge/incidents`."""

STATEMENTS = [
    # Where a source of runbooks was read from: for people who load them, the server reads none of it.
    """
    create table formulary.runbook_source (
        origin text collate "C" primary key,
        place text not null,
        loaded_at timestamptz not null
    )
    """,
    f"grant select, insert, update, delete on formulary.runbook_source to {WRITER}",
    # What a text may name a workflow by. Who stores a workflow later makes it one that the document names.
    """
    alter table formulary.knowledge_document add column mentions text[] collate "C" not null default '{}'
    """,
    """
    create index knowledge_document_mentions on formulary.knowledge_document using gin (mentions)
    where mentions <> '{}'
    """,
    f"""
    create function formulary.name_in_documents() returns trigger
    language plpgsql set search_path = formulary, pg_temp as $$
    begin
        perform pg_advisory_xact_lock_shared({MENTIONS});
        update knowledge_document
        set workflows = array(
            select distinct unnest(workflows || array_remove(array[
                case when new.name = any (mentions) then new.name end,
                case when mentions && array[new.namespace || '/' || new.name, new.version_id]
                     then new.namespace || '/' || new.name end
            ], null)))
        where mentions <> '{{}}'
          and mentions && array[new.name, new.namespace || '/' || new.name, new.version_id];
        return null;
    end
    $$
    """,
    """
    create trigger named_in_documents after insert on formulary.workflow_version
    for each row execute function formulary.name_in_documents()
    """,
    # Every search reads all words. Beside the vector they do not fit into a row of the usual 2 KB, and reading them
    # from elsewhere, compressed, takes twice the time. Rows move when they are written next.
    "alter table formulary.knowledge_document set (toast_tuple_target = 8160)",
    # Documents of incidents that were read before are read again, for what they mention.
    "update formulary.knowledge_progress set traces_until = '-infinity'",
]


def upgrade() -> None:
    """Add the table; sources that are there already are noted with their next load."""
    for statement in STATEMENTS:
        op.execute(statement)
