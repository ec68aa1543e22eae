"""The trail as hash chains: events by trace, their heads, signed checkpoints over the heads, legal holds.

`audit_event` stays for programs of an older release, and searches that they recorded can still be chosen from.
"""

from alembic import op

revision = "0004"
down_revision = "0003"

SERVER = "formulary_server"
WRITER = "formulary_writer"

TABLES = [
    # The months for which there is a partition.
    "create table formulary.trace_month (month date primary key)",
    # `month` is that in which the trace began, so that one trace lies in one partition. What the body says as well
    # stands beside it for those who look for it; verification compares.
    """
    create table formulary.trace_event (
        trace_id text collate "C" not null,
        seq bigint not null,
        month date not null,
        kind text collate "C" not null,
        caller text not null,
        search_id uuid,
        body text not null,
        hash text collate "C" not null,
        primary key (trace_id, seq, month)
    ) partition by list (month)
    """,
    "create index trace_event_search on formulary.trace_event (search_id) where kind = 'search'",
    # `checkpointed`: the newest event of the trace that a checkpoint vouches for.
    """
    create table formulary.trace_head (
        trace_id text collate "C" primary key check (length(trace_id) between 1 and 253),
        month date not null,
        seq bigint not null,
        hash text collate "C" not null,
        changed_at timestamptz not null,
        checkpointed bigint not null default 0
    ) with (fillfactor = 80)
    """,
    "create index trace_head_unvouched on formulary.trace_head (changed_at) where seq > checkpointed",
    """
    create table formulary.trace_checkpoint (
        id bigint primary key,
        at timestamptz not null default clock_timestamp(),
        body text not null,
        previous text collate "C" not null,
        hash text collate "C" not null,
        key_id text not null default '',
        signature bytea not null default ''
    )
    """,
    # Verification of one trace looks through all bodies, and unpacking them would take most of its time.
    "alter table formulary.trace_checkpoint alter column body set storage external",
    """
    create table formulary.trace_hold (
        id bigint generated always as identity primary key,
        trace_id text collate "C" not null,
        reason text not null,
        placed_by text not null,
        placed_at timestamptz not null default clock_timestamp(),
        released_by text not null default '',
        released_at timestamptz
    )
    """,
    "create unique index trace_hold_current on formulary.trace_hold (trace_id) where released_at is null",
]

FUNCTIONS = [
    """
    create function formulary.refuse_trace_change() returns trigger language plpgsql as $$
    begin
        raise exception 'the trail is append-only: % of % is refused', lower(tg_op), tg_table_name
            using errcode = 'insufficient_privilege';
    end
    $$
    """,
    """
    create function formulary.create_trace_month(wanted date) returns void
    language plpgsql set search_path = formulary, pg_temp as $$
    declare
        partition text := format('trace_event_%s', to_char(wanted, 'YYYY_MM'));
    begin
        -- Attached, not created in place: that would wait for whoever reads, and all others behind it.
        execute format('create table %I (like trace_event including all)', partition);
        execute format('alter table trace_event attach partition %I for values in (%L)', partition, wanted);
        execute format(
            'create trigger keep_table before truncate on %I execute function refuse_trace_change()', partition);
        insert into trace_month values (wanted) on conflict do nothing;
    end
    $$
    """,
    # Partitions for this month and those after it. Called long before they are needed; where nobody did, a new trace
    # goes to the newest partition there is, so that the first of a month is a day like any other.
    """
    create function formulary.prepare_trace_months(ahead integer) returns void
    language plpgsql security definer set search_path = formulary, pg_temp as $$
    declare
        first date := date_trunc('month', clock_timestamp() at time zone 'UTC');
        wanted date;
    begin
        perform pg_advisory_xact_lock(7204113604);
        for wanted in
            select (first + make_interval(months => number))::date
            from generate_series(0, least(greatest(ahead, 0), 24)) as number
            where not exists (
                select from trace_month where month = (first + make_interval(months => number))::date)
        loop
            perform create_trace_month(wanted);
        end loop;
    end
    $$
    """,
    # The one way into the trail. The head row is the lock: appends to one trace follow each other. Who called and
    # which search is meant are taken from the payload, so that the columns cannot say anything else.
    """
    create function formulary.append_trace(
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
    """
    create or replace function formulary.search_recorded(
        wanted uuid, by_caller text, for_remediation text
    ) returns boolean
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select exists (
            select from formulary.trace_event
            where search_id = wanted and kind = 'search' and caller = by_caller
              and coalesce(body::jsonb #>> '{payload,remediation_id}', '') = for_remediation)
        or exists (
            select from formulary.audit_event
            where search_id = wanted and action = 'search' and caller = by_caller
              and coalesce(remediation_id, '') = for_remediation)
    $$
    """,
    # Heads that no checkpoint vouches for yet, and the checkpoint before. One checkpoint is written at a time; what is
    # appended to at this moment has its turn with the next, so that nobody waits for anybody.
    """
    create function formulary.begin_checkpoint(
        at_most integer, out last_id bigint, out last_hash text, out heads jsonb
    )
    language plpgsql security definer set search_path = formulary, pg_temp as $$
    begin
        perform pg_advisory_xact_lock(7204113605);
        select id, hash into last_id, last_hash from trace_checkpoint order by id desc limit 1;
        last_id := coalesce(last_id, 0);
        last_hash := coalesce(last_hash, repeat('0', 64));
        select coalesce(jsonb_agg(jsonb_build_array(trace_id, seq, hash)), '[]') into heads from (
            select trace_id, seq, hash from trace_head where seq > checkpointed order by changed_at limit at_most
            for update skip locked
        ) as unvouched;
    end
    $$
    """,
    # Whoever may write checkpoints can only add the next: a number far ahead would leave no room for others, ever.
    """
    create function formulary.end_checkpoint(
        in_id bigint, in_at timestamptz, in_body text, in_previous text, in_hash text, in_key_id text,
        in_signature bytea, in_heads jsonb
    ) returns void
    language plpgsql security definer set search_path = formulary, pg_temp as $$
    declare
        last record;
    begin
        select id, hash into last from trace_checkpoint order by id desc limit 1;
        if in_id is distinct from coalesce(last.id, 0) + 1
            or in_previous is distinct from coalesce(last.hash, repeat('0', 64))
            or in_hash is distinct from encode(sha256(convert_to(in_body, 'UTF8')), 'hex')
        then
            raise exception 'this is not the checkpoint after the last one' using errcode = 'invalid_parameter_value';
        end if;
        insert into trace_checkpoint (id, at, body, previous, hash, key_id, signature)
        values (in_id, in_at, in_body, in_previous, in_hash, in_key_id, in_signature);
        update trace_head set checkpointed = (line ->> 1)::bigint
        from jsonb_array_elements(in_heads) as line
        where trace_id = line ->> 0 and checkpointed < (line ->> 1)::bigint;
    end
    $$
    """,
    # What checkpoints say of one trace. Every body is read: whatever led there faster could be bent.
    """
    create function formulary.trace_marks(
        in_trace text, out checkpoint bigint, out expired boolean, out seq bigint, out hash text, out sound boolean
    ) returns setof record
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select id, found[1] = 'expired', found[2]::bigint, found[3],
               encode(sha256(convert_to(body, 'UTF8')), 'hex') = trace_checkpoint.hash
        from trace_checkpoint
        cross join lateral (
            select position(chr(10) || to_json(in_trace)::text || ' ' in body) as start
        ) as place
        cross join lateral (
            select regexp_match(
                split_part(body, chr(10), 1) || ' ' || split_part(
                    substr(body, place.start + 2 + length(to_json(in_trace)::text), 90), chr(10), 1),
                '^formulary checkpoint 1 (heads|expired) ([0-9]{1,18}) ([0-9a-f]{64})$') as found
        ) as line
        where place.start > 0 and found is not null and in_trace = current_setting('formulary.trace', true)
        order by id
    $$
    """,
]

SIGNATURES = {
    "create_trace_month(date)": (),
    "prepare_trace_months(integer)": (WRITER,),
    "append_trace(text, text, text)": (SERVER, WRITER),
    "begin_checkpoint(integer)": (WRITER,),
    "end_checkpoint(bigint, timestamptz, text, text, text, text, bytea, jsonb)": (WRITER,),
    "trace_marks(text)": (SERVER, WRITER),
}

# No role may change anything; triggers refuse it to the owner as well, until they are disabled.
TRIGGERS = [
    f"create trigger keep_{name} before {event} on formulary.{table} for each {level} "
    "execute function formulary.refuse_trace_change()"
    for table in ("trace_event", "trace_checkpoint")
    for name, event, level in (("rows", "update or delete", "row"), ("table", "truncate", "statement"))
]

# A trace belongs to whoever can name it: only the one that the session names is readable. The owner is not subject to
# this: functions that run as the owner append, and it is the owner who verifies and exports.
ROW_SECURITY = [
    statement
    for table in ("trace_event", "trace_head")
    for statement in (
        f"alter table formulary.{table} enable row level security",
        f"create policy named on formulary.{table} for select to {SERVER}, {WRITER} "
        "using (trace_id = current_setting('formulary.trace', true))",
        f"grant select on formulary.{table} to {SERVER}, {WRITER}",
    )
]


def upgrade() -> None:
    """Add to what is there, with partitions for the year to come."""
    for statement in (*TABLES, *FUNCTIONS, *TRIGGERS, *ROW_SECURITY):
        op.execute(statement)
    for function, roles in SIGNATURES.items():
        op.execute(f"revoke all on function formulary.{function} from public")
        for role in roles:
            op.execute(f"grant execute on function formulary.{function} to {role}")
    op.execute("select formulary.prepare_trace_months(12)")
