"""Notifications: who receives them, and the outbox.

Server and writer add notices through a function, in the transaction of what they report. It gives each receiver one
row. Which receivers those are depends on the namespace of the run or the halt that there is, not on what a notice says.
A receiver is locked meanwhile: one that another leader removes must not fail the change that is reported.
"""

from alembic import op

revision = "0044"
down_revision = "0043"

SERVER = "formulary_server"
WRITER = "formulary_writer"

# Who migrates need not be who owns what there is: a superuser may.
AS_OWNER = """
do $$
begin
    execute format('set local role %I', (
        select pg_get_userbyid(relowner) from pg_class where oid = 'formulary.invocation'::regclass));
end
$$
"""

STATEMENTS = [
    # `events` and `namespaces` are those that it wants; empty for all.
    """
    create table formulary.notification_receiver (
        sender text collate "C" not null,
        name text collate "C" not null,
        events text[] not null,
        namespaces text[] collate "C" not null,
        seen_at timestamptz not null default clock_timestamp(),
        primary key (sender, name)
    )
    """,
    # `at` is when it was due first, `due_at` when it is tried next.
    """
    create table formulary.notification (
        sender text collate "C" not null,
        receiver text collate "C" not null,
        id text collate "C" not null,
        event text not null,
        subject text collate "C" not null,
        notice jsonb not null,
        at timestamptz not null,
        due_at timestamptz not null,
        attempts integer not null default 0,
        done_at timestamptz,
        result text not null default '',
        primary key (sender, receiver, id),
        foreign key (sender, receiver) references formulary.notification_receiver on delete cascade
    )
    """,
    "create index notification_due on formulary.notification (sender, receiver, due_at) where done_at is null",
    "create index notification_done on formulary.notification (done_at) where done_at is not null",
    f"grant select, insert, update, delete on formulary.notification_receiver, formulary.notification to {WRITER}",
    """
    create function formulary.add_notice(
        in_id text, in_event text, in_subject text, in_due timestamptz, in_notice jsonb
    ) returns void
    language sql security definer set search_path = formulary, pg_temp as $$
        insert into notification (sender, receiver, id, event, subject, notice, at, due_at)
        select sender, name, in_id, in_event, in_subject, in_notice, due, due
        from notification_receiver, coalesce(in_due, clock_timestamp()) as due, (
            select namespace from invocation where id = in_subject
            union all select namespace from halt where trace_id = in_subject
        ) as about
        where seen_at > clock_timestamp() - interval '7 days'
          and (events = '{}' or in_event = any (events))
          and (namespaces = '{}' or namespace = '' or namespace = any (namespaces))
        for key share of notification_receiver
        on conflict do nothing
    $$
    """,
    # Of a run that waits: nobody has answered, as far as the answer counts (`notices_of_answer`).
    """
    create function formulary.awaits_decision(in_run text) returns boolean
    language sql stable set search_path = formulary, pg_temp as $$
        select exists (
            select from invocation as run where run.id = in_run and run.phase = 'AwaitingApproval'
              and run.halted = '' and not exists (
                select from invocation_approval as answer
                where answer.invocation_id = run.id and answer.namespace = run.namespace
                  and (answer.decision <> 'Approve' or answer.digest in ('', run.content ->> 'digest'))))
    $$
    """,
    "revoke all on function formulary.add_notice(text, text, text, timestamptz, jsonb) from public",
    f"grant execute on function formulary.add_notice(text, text, text, timestamptz, jsonb) to {SERVER}, {WRITER}",
]


def upgrade() -> None:
    """Add the tables and the functions."""
    op.execute(AS_OWNER)
    for statement in STATEMENTS:
        op.execute(statement)
