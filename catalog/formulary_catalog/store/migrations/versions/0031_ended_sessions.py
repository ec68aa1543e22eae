"""Sessions of the console that people ended: no replica of the server takes their cookies again."""

from alembic import op

revision = "0031"
down_revision = "0030"

SERVER = "formulary_server"

STATEMENTS = [
    # Kept until no cookie of the session could be taken any more. The digest is of the id, which proves nothing.
    """
    create table formulary.ended_session (
        digest bytea primary key check (octet_length(digest) = 32),
        over_at timestamptz not null
    )
    """,
    f"grant select on formulary.ended_session to {SERVER}",
    # The server may add, and nothing else; what is over goes when the next one is added.
    """
    create function formulary.end_session(session bytea, kept_seconds integer) returns void
    language sql volatile security definer set search_path = formulary, pg_temp as $$
        delete from ended_session where digest in (
            select digest from ended_session where over_at < clock_timestamp() limit 1000 for update skip locked
        );
        insert into ended_session (digest, over_at)
        values (session, clock_timestamp() + make_interval(secs => kept_seconds))
        on conflict do nothing
    $$
    """,
    "revoke all on function formulary.end_session(bytea, integer) from public",
    f"grant execute on function formulary.end_session(bytea, integer) to {SERVER}",
]


def upgrade() -> None:
    """Add the table; servers fill it."""
    for statement in STATEMENTS:
        op.execute(statement)
