"""The operator's role verifies the whole trail, so that no process needs the owner's password for that.

It says so in its session; without that it reads the trace that it names, as before.
"""

from alembic import op

revision = "0038"
down_revision = "0037"

WRITER = "formulary_writer"

READING = [
    *(
        f"create policy operator_verifies on formulary.{table} for select to {WRITER} "
        "using (current_setting('formulary.whole_trail', true) = 'on')"
        for table in ("trace_head", "trace_event")  # heads first, as those who append lock them
    ),
    f"grant select on formulary.trace_checkpoint, formulary.trace_hold to {WRITER}",
]

# What checkpoints say is sorted in a temporary table. Only the owner of the database can let others make any; where
# that is somebody else, everybody still may.
TEMPORARY = f"""
do $$
begin
    if pg_has_role((select datdba from pg_database where datname = current_database()), 'usage') then
        execute format('grant temporary on database %I to {WRITER}', current_database());
    end if;
end
$$
"""


def upgrade() -> None:
    """Add to what is there; gives up before PostgreSQL would look for a deadlock, and is tried again."""
    op.execute("set local lock_timeout = '300ms'")
    for statement in (*READING, TEMPORARY):
        op.execute(statement)
