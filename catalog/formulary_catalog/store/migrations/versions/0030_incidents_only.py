"""Lists of traces for people can leave out what belongs to no incident and has no run, such as their own searches."""

from alembic import op

revision = "0030"
down_revision = "0029"

SERVER = "formulary_server"
FEW = 2000
"""As in revision 0026: so many traces are looked up; where there are more, the newest are tried."""
_ARGUMENTS = "text[], text, text, text[], timestamptz, timestamptz, text, integer, boolean"

STATEMENTS = [
    # People may search far more often than incidents happen.
    r"""
    create index trace_head_incident on formulary.trace_head (changed_at, trace_id)
    where not reading and trace_id not like 'tr\_%'
    """,
    r"create index invocation_own_trace on formulary.invocation (trace_id) where trace_id like 'tr\_%'",
    # As the one of revision 0026, which servers before this one go on calling, and with `in_incidents`: only traces of
    # incidents and those with runs. A trace that is asked for by its id is there in any case.
    rf"""
    create function formulary.traces_in(
        namespaces text[], in_namespace text, in_trace text, in_phases text[], since timestamptz,
        before timestamptz, before_trace text, at_most integer, in_incidents boolean
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
        needs_incident constant boolean := in_incidents and in_trace = '';
        few text[];
        many bigint := 0;
        own text[] := '{{}}';
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
        if needs_incident and (few is null or many > {FEW}) then
            own := array(
                select distinct i.trace_id from invocation i where i.trace_id like 'tr\_%' limit {FEW} + 1);
        end if;
        if few is not null and many <= {FEW} then
            open heads for
                select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                where h.trace_id = any (few) and not h.reading and h.changed_at >= since
                  and (before is null or (h.changed_at, h.trace_id) < (before, before_trace))
                order by h.changed_at desc, h.trace_id desc;
        elsif needs_incident and cardinality(own) <= {FEW} then
            open heads for
                select * from (
                    select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                    where not h.reading and h.trace_id not like 'tr\_%'
                    union all
                    select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                    where not h.reading and h.trace_id = any (own)
                ) as h
                where h.changed_at >= since
                  and not (without_run and exists (select from invocation i where i.trace_id = h.trace_id))
                  and (before is null or (h.changed_at, h.trace_id) < (before, before_trace))
                order by h.changed_at desc, h.trace_id desc;
        else
            open heads for
                select h.trace_id, h.changed_at, h.seq, h.month from trace_head h
                where not h.reading and h.changed_at >= since
                  and not (without_run and exists (select from invocation i where i.trace_id = h.trace_id))
                  and (before is null or (h.changed_at, h.trace_id) < (before, before_trace))
                order by h.changed_at desc, h.trace_id desc;
        end if;
        loop
            exit when listed >= at_most;
            fetch heads into head;
            exit when not found;
            phase := coalesce((
                select i.phase from invocation i where i.trace_id = head.trace_id
                order by i.dry_run or i.degraded, i.created_at desc limit 1), '');
            continue when needs_incident and head.trace_id like 'tr\_%' and phase = '';
            continue when in_phases is not null and not phase = any (in_phases);
            belongs_to := array(
                select distinct s.namespace from sealed_constraints s where s.trace_id = head.trace_id order by 1);
            if belongs_to = '{{}}' then
                belongs_to := array(
                    select distinct i.namespace from invocation i where i.trace_id = head.trace_id order by 1);
            end if;
            continue when in_namespace <> '' and not in_namespace = any (belongs_to);
            continue when readable is not null and not (belongs_to <> '{{}}' and belongs_to <@ readable);
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
    f"revoke all on function formulary.traces_in({_ARGUMENTS}) from public",
    f"grant execute on function formulary.traces_in({_ARGUMENTS}) to {SERVER}",
]


def upgrade() -> None:
    """Add the indexes and the function beside the one that there is."""
    for statement in STATEMENTS:
        op.execute(statement)
