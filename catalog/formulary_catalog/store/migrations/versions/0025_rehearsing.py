"""What decisions turned on, so that they can be made again; halts that people say over a server and lift there."""

from alembic import op

revision = "0025"
down_revision = "0024"

SERVER = "formulary_server"
WRITER = "formulary_writer"
_ACTIVE = "phase in ('Pending', 'AwaitingApproval', 'Running')"
_REVIEWED = """
    namespace = any ((select string_to_array(current_setting('formulary.reviewed', true), ','))::text[])
    or (select current_setting('formulary.reviewed', true)) = '*'
"""

DECISIONS = [
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
    # `server`: a person said it over a server, which may lift it. `lifting` is true while that is being done.
    """
    alter table formulary.halt
    add column source text not null default 'database' check (source in ('database', 'server')),
    add column lifting boolean not null default false
    """,
    f"create policy server_reviews on formulary.halt for select to {SERVER} using ({_REVIEWED})",
    # Functions that run as the owner halt; forced row-level security holds for the owner as well.
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

TRAIL = [
    # As before, but for halts of the server.
    f"""
    create or replace function formulary.may_append(in_trace text, in_kind text, payload jsonb) returns boolean
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
]


def upgrade() -> None:
    """Add to what is there."""
    for statement in (*DECISIONS, *HALTS, *TRAIL):
        op.execute(statement)
