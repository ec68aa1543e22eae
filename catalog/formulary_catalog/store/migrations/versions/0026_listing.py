"""Lists for people that stay fast as the trail grows: what only reading left is not looked at to list the rest."""

from alembic import op

revision = "0026"
down_revision = "0025"

FEW = 2000
"""So many traces of a namespace, or with runs in a phase, are looked up; where there are more, the newest are tried."""

HEADS = [
    # Whether a trace is a reading of its own: pages that refresh themselves leave far more of them than all the rest.
    "alter table formulary.trace_head add column reading boolean not null default false",
    r"""
    update formulary.trace_head as head set reading = true
    where trace_id like 'tr\_%' and exists (
        select from formulary.trace_event as event
        where event.trace_id = head.trace_id and event.month = head.month and seq = 1 and kind like 'read.%')
    """,
    "create index trace_head_told on formulary.trace_head (changed_at, trace_id) where not reading",
    "drop index formulary.trace_head_changed",
    "create index invocation_phase on formulary.invocation (phase, created_at, id)",
    "create index invocation_namespace on formulary.invocation (namespace, created_at, id)",
    "create index request_context_changed on formulary.request_context (changed_at, (namespace || '/' || name))",
]

FUNCTIONS = [
    # As before, and a new head says whether it is of a reading.
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
    # As before, row by row: a row costs lookups, so the list ends with the row that fills it. Where few traces can be
    # meant, they are looked up; else the newest are tried, of which many are meant then.
    f"""
    create or replace function formulary.traces_in(
        namespaces text[], in_namespace text, in_trace text, in_phases text[], since timestamptz,
        before timestamptz, before_trace text, at_most integer
    ) returns table (
        trace_id text, changed_at timestamptz, events bigint, held boolean, belongs_to text[], phase text,
        first_body text, first_kind text, last_kind text
    )
    language plpgsql stable security definer set search_path = formulary, pg_temp as $$
    #variable_conflict use_column
    declare
        readable constant text[] := traces_in.namespaces;
        wanted text[] := case when in_namespace = '' then readable else array[in_namespace] end;
        without_run constant boolean := in_phases is not null and in_phases = array[''];
        few text[];
        many bigint := 0;
        heads refcursor;
        head record;
        listed integer := 0;
    begin
        if in_trace <> '' then
            few := array[in_trace];
        elsif wanted is not null then
            select coalesce(array_agg(meant.trace_id), '{{}}'), count(*) into few, many from (
                (select s.trace_id from sealed_constraints s where s.namespace = any (wanted) limit {FEW} + 1)
                union all
                (select i.trace_id from invocation i where i.namespace = any (wanted) limit {FEW} + 1)
            ) as meant;
        elsif in_phases is not null and not '' = any (in_phases) then
            select coalesce(array_agg(meant.trace_id), '{{}}'), count(*) into few, many from (
                select i.trace_id from invocation i where i.phase = any (in_phases) limit {FEW} + 1
            ) as meant;
        end if;
        if few is null or many > {FEW} then
            open heads for
                select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                where not h.reading and h.changed_at >= since
                  and not (without_run and exists (select from invocation i where i.trace_id = h.trace_id))
                  and (before is null or (h.changed_at, h.trace_id) < (before, before_trace))
                order by h.changed_at desc, h.trace_id desc;
        else
            open heads for
                select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                where h.trace_id = any (few) and not h.reading and h.changed_at >= since
                  and (before is null or (h.changed_at, h.trace_id) < (before, before_trace))
                order by h.changed_at desc, h.trace_id desc;
        end if;
        loop
            exit when listed >= at_most;
            fetch heads into head;
            exit when not found;
            belongs_to := array(
                select distinct s.namespace from sealed_constraints s where s.trace_id = head.trace_id order by 1);
            if belongs_to = '{{}}' then
                belongs_to := array(
                    select distinct i.namespace from invocation i where i.trace_id = head.trace_id order by 1);
            end if;
            continue when in_namespace <> '' and not in_namespace = any (belongs_to);
            continue when readable is not null and not (belongs_to <> '{{}}' and belongs_to <@ readable);
            phase := coalesce((
                select i.phase from invocation i where i.trace_id = head.trace_id
                order by i.dry_run or i.degraded, i.created_at desc limit 1), '');
            continue when in_phases is not null and not phase = any (in_phases);
            select e.body, e.kind into first_body, first_kind from trace_event e
            where e.trace_id = head.trace_id and e.month = head.month order by e.seq limit 1;
            continue when not found;
            select e.kind into last_kind from trace_event e
            where e.trace_id = head.trace_id and e.month = head.month order by e.seq desc limit 1;
            held := exists (select from trace_hold t where t.trace_id = head.trace_id and t.released_at is null);
            trace_id := head.trace_id;
            changed_at := head.changed_at;
            events := head.seq;
            listed := listed + 1;
            return next;
        end loop;
        close heads;
    end
    $$
    """,
]


def upgrade() -> None:
    """Add to what is there; `append_trace` and `traces_in` are replaced, and an index by one that leaves more out."""
    for statement in (*HEADS, *FUNCTIONS):
        op.execute(statement)
