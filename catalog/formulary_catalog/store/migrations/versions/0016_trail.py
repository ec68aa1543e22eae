"""Which events each role may append; holds leave events; checkpoints are compared with what was published of them."""

from alembic import op

revision = "0016"
down_revision = "0015"

SERVER = "formulary_server"
WRITER = "formulary_writer"

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
)
"""What the server alone knows of: it records the calls that it answered."""

KINDS = [
    # Functions that run as the owner look; forced row-level security holds for the owner as well.
    "create policy owner_looks on formulary.invocation_approval for select to current_user using (true)",
    # Who appends: the role that the session has taken on, else the user that connected. `current_user` is the owner
    # here. Holds are the owner's; the rest is free for whoever may feed the catalog. The server records calls; what it
    # says of a run has to stand in the run's rows, written in this very transaction.
    f"""
    create function formulary.may_append(in_trace text, in_kind text, payload jsonb) returns boolean
    language plpgsql stable security definer set search_path = formulary, pg_temp as $$
    declare
        invoker name := case current_setting('role') when 'none' then session_user else current_setting('role') end;
    begin
        if in_kind in ({", ".join(f"'{kind}'" for kind in FREE)}) then
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
    # As before, but for the check. Servers of an older release append through it too.
    """
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
            insert into trace_head (trace_id, month, seq, hash, changed_at) values (in_trace, began, seq, hash, at)
            on conflict do nothing;
            exit when found;
        end loop;
        insert into trace_event (trace_id, seq, month, kind, caller, search_id, body, hash)
        values (in_trace, seq, began, in_kind, payload ->> 'caller', (payload ->> 'search_id')::uuid, body, hash);
    end
    $$
    """,
]

HOLDS = [
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
    # Those of before. A server that appends to such a trace at this moment is not waited for: it may wait for us.
    """
    select formulary.append_trace(trace_id, 'hold.placed', payload) from (
        select head.trace_id, json_build_object('caller', placed_by, 'hold', id, 'reason', reason)::text as payload
        from formulary.trace_hold as hold join formulary.trace_head as head using (trace_id)
        where released_at is null order by hold.id for update of head nowait
    ) as earlier
    """,
]

CHECKPOINTS = [
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


def upgrade() -> None:
    """Add to what is there; `append_trace` is replaced."""
    for statement in (*KINDS, *HOLDS, *CHECKPOINTS):
        op.execute(statement)
