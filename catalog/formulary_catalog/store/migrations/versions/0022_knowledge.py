"""Documents of the knowledge collections: sections of served workflows, of ended incidents and of runbooks."""

from alembic import op

revision = "0022"
down_revision = "0021"

SERVER = "formulary_server"
WRITER = "formulary_writer"

STATEMENTS = [
    # A document goes with its source: a version that is no longer served, a trace that is dropped, a file that is gone.
    # `origin` is who brought a runbook. `workflows` are the workflows that the text names.
    """
    create table formulary.knowledge_document (
        doc_id text collate "C" primary key,
        tenant_id integer not null references formulary.tenant,
        namespace text collate "C" not null,
        collection text collate "C" not null check (collection in ('workflows', 'incidents', 'runbooks')),
        position integer not null,
        source_file text collate "C" not null,
        title text not null,
        section_title text not null,
        text text not null,
        free_text boolean not null,
        workflows text[] collate "C" not null,
        version_id text collate "C" references formulary.workflow_version on delete cascade,
        trace_id text collate "C" references formulary.trace_head on delete cascade,
        origin text collate "C" not null,
        text_hash text collate "C" not null,
        lexemes tsvector not null,
        model_id text collate "C",
        emb vector(384)
    )
    """,
    "alter table formulary.knowledge_document alter column emb set storage plain",
    "create index knowledge_document_version on formulary.knowledge_document (version_id) where version_id is not null",
    "create index knowledge_document_trace on formulary.knowledge_document (trace_id) where trace_id is not null",
    "create index knowledge_document_origin on formulary.knowledge_document (origin) where origin <> ''",
    "create index knowledge_document_text on formulary.knowledge_document (text_hash)",
    "create index knowledge_document_tenant on formulary.knowledge_document (tenant_id, collection)",
    "alter table formulary.knowledge_document enable row level security",
    "alter table formulary.knowledge_document force row level security",
    f"create policy writer on formulary.knowledge_document to {WRITER} using (true) with check (true)",
    # What somebody wrote under an incident is readable where the session may use the incidents of its namespace.
    f"""
    create policy server on formulary.knowledge_document for select to {SERVER} using (
        tenant_id = any ((select formulary.visible_tenants())::integer[])
        and (not free_text or namespace = any (
            (select nullif(current_setting('formulary.incident_namespaces', true), '')::text[])::text[])))
    """,
    f"grant select on formulary.knowledge_document to {SERVER}",
    f"grant select, insert, update, delete on formulary.knowledge_document to {WRITER}",
    # From a vector some of its text can be guessed, so it goes with the last document that says it.
    """
    create function formulary.forget_document_vector() returns trigger
    language plpgsql set search_path = formulary, pg_temp as $$
    begin
        delete from embedding where text_hash = old.text_hash
        and not exists (select from knowledge_document where text_hash = old.text_hash);
        return null;
    end
    $$
    """,
    """
    create trigger forget_vector_of_deleted after delete on formulary.knowledge_document
    for each row execute function formulary.forget_document_vector()
    """,
    """
    create trigger forget_vector_of_changed after update of text_hash on formulary.knowledge_document
    for each row when (old.text_hash <> new.text_hash) execute function formulary.forget_document_vector()
    """,
    # Up to when ended traces have been read. One row.
    """
    create table formulary.knowledge_progress (
        only_row boolean primary key default true check (only_row),
        traces_until timestamptz not null
    )
    """,
    "insert into formulary.knowledge_progress (traces_until) values ('-infinity')",
    f"grant select, update on formulary.knowledge_progress to {WRITER}",
    # The traces that changed last in this time, oldest first; with one that changed at the same moment as the last.
    """
    create function formulary.ended_traces(after timestamptz, until timestamptz, at_most integer)
    returns table (trace_id text, changed_at timestamptz)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select trace_id, changed_at from formulary.trace_head
        where changed_at > after and changed_at <= until
        order by changed_at fetch first at_most rows with ties
    $$
    """,
    "revoke all on function formulary.ended_traces(timestamptz, timestamptz, integer) from public",
    f"grant execute on function formulary.ended_traces(timestamptz, timestamptz, integer) to {WRITER}",
]


def upgrade() -> None:
    """Create the table; sections of workflows come with the next load, incidents and runbooks beside the serving."""
    for statement in STATEMENTS:
        op.execute(statement)
