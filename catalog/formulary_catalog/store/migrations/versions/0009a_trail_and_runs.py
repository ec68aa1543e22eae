"""The trail and runs since the release of 0009: who appends what, sealed constraints, documents, approvals, halts.

Three revisions bring that release to the next one, a transaction for each: what holds up the trail and runs, what holds
up searches, and what holds up only who writes workflows. Each asks for its locks before it does anything, and gives up
before PostgreSQL would look for a deadlock, and end a call. Row-level security is forced on the owner of the database
as well.
"""

from alembic import op

revision = "0009a"
down_revision = "0009"

SERVER = "formulary_server"
WRITER = "formulary_writer"
MENTIONS = 7_204_113_628
"""The lock of `store/knowledge/incidents`."""
_ACTIVE = "phase in ('Pending', 'AwaitingApproval', 'Running')"
_PHASES = "'Pending', 'AwaitingApproval', 'Running', 'Succeeded', 'Failed', 'TimedOut', 'Cancelled', 'Halted'"
_REVIEWED = """
    namespace = any ((select string_to_array(current_setting('formulary.reviewed', true), ','))::text[])
    or (select current_setting('formulary.reviewed', true)) = '*'
"""

# Who migrates need not be who owns what there is: a superuser may.
AS_OWNER = """
do $$
begin
    execute format('set local role %I', (
        select pg_get_userbyid(relowner) from pg_class where oid = 'formulary.trace_event'::regclass));
end
$$
"""
LOCKS = [
    "set local lock_timeout = '300ms'",
    # Heads before events, as who appends locks them.
    """
    lock table formulary.trace_head, formulary.trace_event, formulary.trace_hold, formulary.invocation,
        formulary.invocation_approval, formulary.invocation_secret, formulary.governance_contract,
        formulary.executor, formulary.admission_record
    in access exclusive mode
    """,
    # Searches go on.
    "lock table formulary.tenant, formulary.workflow_version in share row exclusive mode",
]

TRAIL = [
    # `reading`: whether a trace is a reading of its own. Pages that refresh themselves leave far more of them than all
    # the rest.
    "alter table formulary.trace_head add column reading boolean not null default false",
    "create index trace_head_told on formulary.trace_head (changed_at, trace_id) where not reading",
    # People may search far more often than incidents happen.
    r"""
    create index trace_head_incident on formulary.trace_head (changed_at, trace_id)
    where not reading and trace_id not like 'tr\_%'
    """,
    # What a search or a selection came to, beside its event and gone with it: bodies are too long to count with.
    # `found` are the workflows that a search returned. Null for events of before.
    """
    alter table formulary.trace_event
    add column at timestamptz, add column facts jsonb, add column found text[] collate "C"
    """,
    r"""
    create function formulary.note_facts() returns trigger
    language plpgsql set search_path = formulary, pg_temp as $$
    declare
        event jsonb := new.body;
        payload jsonb := event -> 'payload';
        candidates jsonb := payload #> '{result,candidates}';
        query text := left(payload #>> '{arguments,query}', 400);
    begin
        new.at := event ->> 'at';
        new.facts := jsonb_strip_nulls(jsonb_build_object(
            'outcome', payload ->> 'outcome',
            'mode', payload ->> 'mode',
            'remediation_id', payload ->> 'remediation_id',
            'namespace', split_part(coalesce(payload ->> 'analysis', ''), '/', 1),
            'version_id', coalesce(candidates #>> '{0,version_id}', payload #>> '{result,version_id}'),
            'confidence', candidates #> '{0,confidence}',
            'query', query,
            'signal', lower(rtrim(substring(query from '^\s*(\S+)'), ',:;'))));
        if new.kind = 'search' and jsonb_typeof(candidates) = 'array' then
            new.found := array(
                select candidate ->> 'version_id' from jsonb_array_elements(candidates) as candidate
                where candidate -> 'returned' = 'true'::jsonb);
        end if;
        return new;
    end
    $$
    """,
    """
    create trigger note_facts before insert on formulary.trace_event
    for each row when (new.kind in ('search', 'selection')) execute function formulary.note_facts()
    """,
    "create index trace_event_searched on formulary.trace_event (at) where kind = 'search'",
    """
    create index trace_event_chosen on formulary.trace_event ((facts ->> 'version_id'), at)
    where kind in ('search', 'selection')
    """,
    # The operator's role verifies the whole trail, so that no process needs the owner's password for that. It says so
    # in its session; without that it reads the trace that it names, as before.
    *(
        f"create policy operator_verifies on formulary.{table} for select to {WRITER} "
        "using (current_setting('formulary.whole_trail', true) = 'on')"
        for table in ("trace_head", "trace_event")
    ),
    f"grant select on formulary.trace_checkpoint, formulary.trace_hold to {WRITER}",
    # Functions that run as the owner append and look, the views of `insight` read, and the owner verifies and exports.
    *(
        statement
        for table in ("trace_head", "trace_event")
        for statement in (
            f"create policy owner_keeps on formulary.{table} to current_user using (true) with check (true)",
            f"alter table formulary.{table} force row level security",
        )
    ),
]

FREE = (
    "search",
    "details",
    "list",
    "selection",
    "constraints",
    "status",
    "governance.gate",
    "governance.enforce",
    "governance.verdict",
    "governance.replay",
    "invocation.refused",
    "halt.refused",
)
"""Kinds of events that anybody may append. `read.` and what was read is another one."""

APPENDING = [
    "create policy owner_looks on formulary.invocation_approval for select to current_user using (true)",
    # Who appends: the role that the session has taken on, else the user that connected. `current_user` is the owner
    # here. Holds are the owner's; the rest is free for what may feed the catalog. The server records calls; what it
    # says of a run has to stand in the run's rows, written in this very transaction.
    f"""
    create function formulary.may_append(in_trace text, in_kind text, payload jsonb) returns boolean
    language plpgsql stable security definer set search_path = formulary, pg_temp as $$
    declare
        invoker name := case current_setting('role') when 'none' then session_user else current_setting('role') end;
    begin
        if in_kind in ({", ".join(f"'{kind}'" for kind in FREE)}) or in_kind like 'read.%' then
            return true;
        end if;
        if pg_has_role(invoker, current_user, 'MEMBER') then
            return true;
        end if;
        if in_kind like 'hold.%' then
            return false;
        end if;
        if pg_has_role(invoker, '{WRITER}', 'MEMBER') then
            return true;
        end if;
        if in_kind in ('halt.begun', 'halt.lifted') then
            return exists (
                select from halt
                where trace_id = in_trace and source = 'server' and xmin = pg_current_xact_id()::xid
                  and lifting = (in_kind = 'halt.lifted') and (lifting or by = payload ->> 'caller'));
        end if;
        if in_kind in ('invocation.requested', 'invocation.decided', 'invocation.finished') then
            return exists (
                select from invocation
                where id = payload ->> 'invocation_id' and trace_id = in_trace and source = 'server'
                  and requester = payload ->> 'caller' and xmin = pg_current_xact_id()::xid
                  and (in_kind <> 'invocation.finished' or dry_run and phase = payload ->> 'phase'));
        end if;
        return exists (
            select from invocation_approval as approval join invocation as run on run.id = approval.invocation_id
            where run.id = payload ->> 'invocation_id' and run.trace_id = in_trace and approval.source = 'server'
              and approval.approver = payload ->> 'caller' and approval.approver = payload ->> 'approver'
              and coalesce(payload ->> 'object', '') = '' and approval.xmin = pg_current_xact_id()::xid
              and in_kind = 'invocation.' || case approval.decision when 'Approve' then 'approved' else 'rejected' end);
    end
    $$
    """,
    "revoke all on function formulary.may_append(text, text, jsonb) from public",
    # As before, but for the check, and a new head says whether it is of a reading. Servers of the release before append
    # through it too.
    r"""
    create or replace function formulary.append_trace(
        in_trace text, in_kind text, in_payload text, out seq bigint, out hash text, out at timestamptz
    )
    language plpgsql security definer set search_path = formulary, pg_temp as $$
    #variable_conflict use_column
    declare
        payload jsonb := in_payload;
        head record;
        body text;
        began date;
    begin
        if jsonb_typeof(payload) is distinct from 'object' then
            raise exception 'a payload is a JSON object' using errcode = 'invalid_parameter_value';
        end if;
        if not may_append(in_trace, in_kind, payload) then
            raise exception 'this role may not append an event of the kind %', in_kind
                using errcode = 'insufficient_privilege';
        end if;
        loop
            select h.month, h.seq, h.hash into head from trace_head h where h.trace_id = in_trace for update;
            at := clock_timestamp();
            seq := coalesce(head.seq, 0) + 1;
            body := format(
                '{"at":"%s","kind":%s,"payload":%s,"previous":"%s","seq":%s,"trace_id":%s}',
                to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), to_json(in_kind), in_payload,
                coalesce(head.hash, repeat('0', 64)), seq, to_json(in_trace));
            hash := encode(sha256(convert_to(body, 'UTF8')), 'hex');
            if head.seq is not null then
                update trace_head h set seq = append_trace.seq, hash = append_trace.hash, changed_at = append_trace.at
                where h.trace_id = in_trace;
                began := head.month;
                exit;
            end if;
            began := coalesce(
                (select max(month) from trace_month where month <= (at at time zone 'UTC')::date),
                (select min(month) from trace_month));
            insert into trace_head (trace_id, month, seq, hash, changed_at, reading)
            values (in_trace, began, seq, hash, at, in_trace like 'tr\_%' and in_kind like 'read.%')
            on conflict do nothing;
            exit when found;
        end loop;
        insert into trace_event (trace_id, seq, month, kind, caller, search_id, body, hash)
        values (in_trace, seq, began, in_kind, payload ->> 'caller', (payload ->> 'search_id')::uuid, body, hash);
    end
    $$
    """,
]

HELD = [
    # A hold is an event of its trace: a row that is deleted later is missed.
    """
    create function formulary.record_hold() returns trigger
    language plpgsql security definer set search_path = formulary, pg_temp as $$
    begin
        perform case when new.released_at is null
            then append_trace(new.trace_id, 'hold.placed',
                json_build_object('caller', new.placed_by, 'hold', new.id, 'reason', new.reason)::text)
            else append_trace(new.trace_id, 'hold.released',
                json_build_object('caller', new.released_by, 'hold', new.id)::text)
            end;
        return null;
    end
    $$
    """,
    "revoke all on function formulary.record_hold() from public",
    """
    create trigger record_hold after insert or update of released_at on formulary.trace_hold
    for each row execute function formulary.record_hold()
    """,
    """
    create trigger keep_rows before delete on formulary.trace_hold
    for each row execute function formulary.refuse_trace_change()
    """,
    """
    create trigger keep_table before truncate on formulary.trace_hold
    for each statement execute function formulary.refuse_trace_change()
    """,
    # Those of before.
    """
    select formulary.append_trace(trace_id, 'hold.placed', payload) from (
        select trace_id, json_build_object('caller', placed_by, 'hold', id, 'reason', reason)::text as payload
        from formulary.trace_hold where released_at is null order by id
    ) as earlier
    """,
    # The checkpoint with this number and the newest ones behind it: what is published, and what it is compared with.
    """
    create function formulary.checkpoints_from(known bigint, at_most integer)
    returns table (id bigint, hash text)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        (select id, hash from formulary.trace_checkpoint where id = known)
        union
        (select id, hash from formulary.trace_checkpoint where id > known order by id desc limit at_most)
        order by id
    $$
    """,
    "revoke all on function formulary.checkpoints_from(bigint, integer) from public",
    f"grant execute on function formulary.checkpoints_from(bigint, integer) to {WRITER}",
]

SEALED = [
    # The key of all keyed digests. One row; it never changes, so that digests of today and of next year compare.
    """
    create table formulary.digest_key (
        key bytea not null,
        only_row boolean primary key default true check (only_row)
    )
    """,
    """
    insert into formulary.digest_key (key)
    values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())))
    """,
    f"grant select on formulary.digest_key to {SERVER}, {WRITER}",
    # What incidents demanded, custom labels included. A copy goes with its trace. No check: a failed one would put the
    # row into the log.
    """
    create table formulary.sealed_constraints (
        trace_id text collate "C" not null references formulary.trace_head on delete cascade,
        digest text collate "C" not null,
        namespace text collate "C" not null,
        content text not null,
        at timestamptz not null default clock_timestamp(),
        primary key (trace_id, digest)
    )
    """,
    """
    create trigger keep_rows before update on formulary.sealed_constraints
    for each row execute function formulary.refuse_trace_change()
    """,
    "alter table formulary.sealed_constraints enable row level security",
    "alter table formulary.sealed_constraints force row level security",
    "create index sealed_constraints_namespace on formulary.sealed_constraints (namespace)",
    # Readable are the copies of the trace that the session names, of incidents of the namespaces that it names: those
    # in which the caller may use incidents.
    f"""
    create policy named on formulary.sealed_constraints for select to {SERVER} using (
        trace_id = current_setting('formulary.trace', true)
        and namespace = any (nullif(current_setting('formulary.incident_namespaces', true), '')::text[]))
    """,
    f"grant select on formulary.sealed_constraints to {SERVER}",
    # Functions that run as the owner add and look.
    "create policy owner_adds on formulary.sealed_constraints for insert to current_user with check (true)",
    "create policy owner_looks on formulary.sealed_constraints for select to current_user using (true)",
    """
    create function formulary.append_sealed(
        in_trace text, in_kind text, in_payload text, in_digest text, in_namespace text, in_content text,
        out seq bigint, out hash text, out at timestamptz
    )
    language plpgsql security definer set search_path = formulary, pg_temp as $$
    begin
        select event.seq, event.hash, event.at into seq, hash, at
        from append_trace(in_trace, in_kind, in_payload) as event;
        insert into sealed_constraints (trace_id, digest, namespace, content)
        values (in_trace, in_digest, in_namespace, in_content)
        on conflict do nothing;
    end
    $$
    """,
    "revoke all on function formulary.append_sealed(text, text, text, text, text, text) from public",
    f"grant execute on function formulary.append_sealed(text, text, text, text, text, text) to {SERVER}, {WRITER}",
    # Whose right it takes to read the copies of the trace that the session names.
    """
    create function formulary.sealed_namespaces(in_trace text) returns setof text
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select distinct namespace from formulary.sealed_constraints
        where trace_id = in_trace and in_trace = current_setting('formulary.trace', true)
        order by namespace
    $$
    """,
    "revoke all on function formulary.sealed_namespaces(text) from public",
    f"grant execute on function formulary.sealed_namespaces(text) to {SERVER}",
]

DOCUMENTS = [
    # Sections of served workflows, of ended incidents and of runbooks.
    # A document goes with its source: a version that is no longer served, a trace that is dropped, a file that is gone.
    # `origin` is who brought a runbook. `workflows` are the workflows that the text names.
    # `mentions` is what the text may name a workflow by.
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
        emb vector(384),
        mentions text[] collate "C" not null default '{}'
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
    # Who stores a workflow later makes it one that a document names.
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
    # from elsewhere, compressed, takes twice the time.
    "alter table formulary.knowledge_document set (toast_tuple_target = 8160)",
    # Where a source of runbooks was read from: for people who load them, the server reads none of it.
    """
    create table formulary.runbook_source (
        origin text collate "C" primary key,
        place text not null,
        loaded_at timestamptz not null
    )
    """,
    f"grant select, insert, update, delete on formulary.runbook_source to {WRITER}",
]

RUNS = [
    # Who created an object and who wrote a workflow: all that a question for the rights of that user needs.
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
    # What a waiting run would run, for its approver; and the content that an approval counts for.
    # `halted` is why a run must be ended; it stays when the halt is lifted.
    """
    alter table formulary.invocation
    add column content jsonb not null default '{}',
    add column halted text not null default '',
    drop constraint invocation_phase_check
    """,
    f"alter table formulary.invocation add constraint invocation_phase_check check (phase in ({_PHASES}))",
    # Empty: given before the content was known; it counts for the content that is rendered next.
    "alter table formulary.invocation_approval add column digest text not null default ''",
    # Sensitive input is stored encrypted. What an older server stored stays readable until its run is over.
    """
    alter table formulary.invocation_secret
    add column sealed bytea,
    alter column content drop not null
    """,
    # What an operator does with workflows of unknown authors. Operators of an older release announce neither: they
    # watch every namespace then, and nothing follows from authors.
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
    # Runs that are over, and records of who created them, may be deleted once they are old.
    f"grant delete on formulary.invocation, formulary.admission_record to {WRITER}",
    "create index invocation_finished on formulary.invocation (finished_at, id) where finished_at is not null",
    """
    create index invocation_waiting on formulary.invocation (created_at) where phase = 'AwaitingApproval'
    """,
    """
    create index invocation_untold on formulary.invocation (created_at)
    where source = 'server' and phase = 'Failed' and reason = 'Denied' and object_uid = ''
    """,
    "create index invocation_trace on formulary.invocation (trace_id, created_at)",
    "create index invocation_created on formulary.invocation (created_at, id)",
    "create index invocation_phase on formulary.invocation (phase, created_at, id)",
    "create index invocation_namespace on formulary.invocation (namespace, created_at, id)",
    r"create index invocation_own_trace on formulary.invocation (trace_id) where trace_id like 'tr\_%'",
    # A run for which nothing was ever created is no failure of its workflow: it changed nothing.
    """
    create or replace function formulary.recent_failures(
        in_namespace text, workflow text, on_target jsonb, within interval
    ) returns integer
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select count(*)::integer from formulary.invocation
        where workflow_namespace = in_namespace and workflow_name = workflow and target = on_target
          and phase in ('Failed', 'TimedOut') and started_at is not null and reference <> '{}'
          and not dry_run and not degraded
          and finished_at > clock_timestamp() - within
    $$
    """,
    # Runs and contracts of the namespaces in which the caller may read them; `*` is all.
    *(
        f"create policy server_reviews on formulary.{table} for select to {SERVER} using ({_REVIEWED})"
        for table in ("invocation", "governance_contract")
    ),
    "create policy owner_looks on formulary.governance_contract for select to current_user using (true)",
    # What decisions turned on, so that they can be made again.
    """
    create table formulary.decision_basis (
        id bigint generated always as identity primary key,
        invocation_id text collate "C" not null references formulary.invocation on delete cascade,
        namespace text collate "C" not null,
        at timestamptz not null,
        outcome text not null,
        basis jsonb not null
    )
    """,
    "create index decision_basis_at on formulary.decision_basis (at, id)",
    "create index decision_basis_of on formulary.decision_basis (invocation_id)",
    "alter table formulary.decision_basis enable row level security",
    "alter table formulary.decision_basis force row level security",
    f"create policy writer on formulary.decision_basis to {WRITER} using (true) with check (true)",
    f"""
    create policy server_adds on formulary.decision_basis for insert to {SERVER}
    with check (invocation_id = current_setting('formulary.invocation', true))
    """,
    f"create policy server_reviews on formulary.decision_basis for select to {SERVER} using ({_REVIEWED})",
    f"grant select, insert on formulary.decision_basis to {SERVER}",
    f"grant select, insert, delete on formulary.decision_basis to {WRITER}",
]

HALTS = [
    # Halts in force. An empty namespace is everywhere; an empty contract is a command's halt. `server`: a person said
    # it over a server, which may lift it. `lifting` is true while that is being done.
    """
    create table formulary.halt (
        namespace text collate "C" not null,
        contract text collate "C" not null,
        reason text not null,
        by text not null,
        at timestamptz not null default clock_timestamp(),
        trace_id text collate "C" not null,
        source text not null default 'database' check (source in ('database', 'server')),
        lifting boolean not null default false,
        primary key (namespace, contract)
    )
    """,
    # Leave to create one object in the cluster, while it lasts: a halt waits for those who have it.
    """
    create table formulary.run_start (
        id bigint generated always as identity primary key,
        namespace text collate "C" not null,
        until timestamptz not null
    )
    """,
    "alter table formulary.halt enable row level security",
    "alter table formulary.halt force row level security",
    f"create policy writer on formulary.halt to {WRITER} using (true) with check (true)",
    f"""
    create policy server_reads on formulary.halt for select to {SERVER}
    using (namespace = '' or namespace = any (string_to_array(current_setting('formulary.namespaces', true), ',')))
    """,
    # For `formulary doctor`.
    "create policy owner_reads on formulary.halt for select to current_user using (true)",
    f"grant select on formulary.halt to {SERVER}",
    f"grant select, insert, update, delete on formulary.halt to {WRITER}",
    f"grant select, insert, delete on formulary.run_start to {WRITER}",
    f"create policy server_reviews on formulary.halt for select to {SERVER} using ({_REVIEWED})",
    # Functions that run as the owner halt.
    "create policy owner_halts on formulary.halt to current_user using (true) with check (true)",
    "create policy owner_halts on formulary.invocation for update to current_user using (true) with check (true)",
    f"""
    create function formulary.moves_runs() returns boolean
    language sql stable set search_path = formulary, pg_temp as $$
        select pg_has_role(
            case current_setting('role') when 'none' then session_user else current_setting('role') end,
            '{WRITER}', 'MEMBER')
    $$
    """,
    """
    create function formulary.starts_under_way(in_namespace text) returns boolean
    language sql volatile security definer set search_path = formulary, pg_temp as $$
        select exists (
            select from run_start where in_namespace in ('', namespace) and until > clock_timestamp())
    $$
    """,
    # A halt as it is in force then; `begun` unless the server found one that was said at the database, which stays.
    """
    create function formulary.begin_halt(
        in_namespace text, in_contract text, in_reason text, in_by text, in_trace text
    ) returns table (
        namespace text, contract text, reason text, by text, at timestamptz, trace_id text, source text, begun boolean
    )
    language plpgsql security definer set search_path = formulary, pg_temp as $$
    #variable_conflict use_column
    declare
        writes boolean := moves_runs();
    begin
        if in_contract <> '' and not writes then
            raise exception 'contracts halt through their objects' using errcode = 'insufficient_privilege';
        end if;
        return query
            insert into halt as known (namespace, contract, reason, by, trace_id, source)
            values (in_namespace, in_contract, in_reason, in_by, in_trace,
                    case when writes then 'database' else 'server' end)
            on conflict (namespace, contract) do update
            set reason = excluded.reason, by = excluded.by, source = excluded.source
            where writes or known.source = 'server'
            returning known.namespace, known.contract, known.reason, known.by, known.at, known.trace_id, known.source,
                      true;
        if not found then
            return query
                select known.namespace, known.contract, known.reason, known.by, known.at, known.trace_id, known.source,
                       false
                from halt as known where known.namespace = in_namespace and known.contract = in_contract;
        end if;
    end
    $$
    """,
    # Have all runs end that a halt of this transaction holds for, with the message; their ids.
    f"""
    create function formulary.end_halted(in_namespace text, in_contract text, in_message text) returns setof text
    language plpgsql security definer set search_path = formulary, pg_temp as $$
    begin
        if not exists (
            select from halt
            where namespace = in_namespace and contract = in_contract and xmin = pg_current_xact_id()::xid)
        then
            raise exception 'a halt ends runs when it begins' using errcode = 'insufficient_privilege';
        end if;
        return query
            update invocation set halted = in_message
            where {_ACTIVE} and halted = '' and in_namespace in ('', namespace) returning id;
    end
    $$
    """,
    # A contract's halt by its name, wherever it holds. What was said at the database is lifted there.
    """
    create function formulary.lift_halt(in_namespace text, in_contract text, in_reason text, in_by text)
    returns table (
        namespace text, contract text, reason text, by text, at timestamptz, trace_id text, source text
    )
    language plpgsql security definer set search_path = formulary, pg_temp as $$
    #variable_conflict use_column
    declare
        known halt%rowtype;
    begin
        update halt set lifting = true
        where contract = in_contract and (in_contract <> '' or namespace = in_namespace)
          and (moves_runs() or source = 'server' and contract = '')
        returning * into known;
        if not found then
            return;
        end if;
        perform append_trace(known.trace_id, 'halt.lifted', json_build_object(
            'caller', in_by, 'namespace', known.namespace, 'contract', known.contract,
            'where', case known.namespace when '' then 'everywhere' else 'in namespace ' || known.namespace end,
            'reason', in_reason)::text);
        return query
            delete from halt as gone where gone.namespace = known.namespace and gone.contract = known.contract
            returning gone.namespace, gone.contract, gone.reason, gone.by, gone.at, gone.trace_id, gone.source;
    end
    $$
    """,
    *(
        statement
        for function in (
            "starts_under_way(text)",
            "begin_halt(text, text, text, text, text)",
            "end_halted(text, text, text)",
            "lift_halt(text, text, text, text)",
        )
        for statement in (
            f"revoke all on function formulary.{function} from public",
            f"grant execute on function formulary.{function} to {SERVER}, {WRITER}",
        )
    ),
]


def upgrade() -> None:
    """Add to what is there; `append_trace` is replaced."""
    op.execute(AS_OWNER)
    for statement in (*LOCKS, *TRAIL, *APPENDING, *HELD, *SEALED, *DOCUMENTS, *RUNS, *HALTS):
        op.execute(statement)
