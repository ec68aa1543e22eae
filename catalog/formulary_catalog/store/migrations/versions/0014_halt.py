"""The emergency stop: halts in force, the runs that they ended, and the starts that are under way."""

from alembic import op

revision = "0014"
down_revision = "0013"

SERVER = "formulary_server"
WRITER = "formulary_writer"
_PHASES = "'Pending', 'AwaitingApproval', 'Running', 'Succeeded', 'Failed', 'TimedOut', 'Cancelled', 'Halted'"

STATEMENTS = [
    # An empty namespace is everywhere; an empty contract is a command's halt.
    """
    create table formulary.halt (
        namespace text collate "C" not null,
        contract text collate "C" not null,
        reason text not null,
        by text not null,
        at timestamptz not null default clock_timestamp(),
        trace_id text collate "C" not null,
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
    # Why a run must be ended; it stays when the halt is lifted.
    "alter table formulary.invocation add column halted text not null default ''",
    "alter table formulary.invocation drop constraint invocation_phase_check",
    f"alter table formulary.invocation add constraint invocation_phase_check check (phase in ({_PHASES})) not valid",
    "alter table formulary.invocation validate constraint invocation_phase_check",
    "alter table formulary.halt enable row level security",
    "alter table formulary.halt force row level security",
    f"create policy writer on formulary.halt to {WRITER} using (true) with check (true)",
    f"""
    create policy server_reads on formulary.halt for select to {SERVER}
    using (namespace = '' or namespace = any (string_to_array(current_setting('formulary.namespaces', true), ',')))
    """,
    # For `formulary doctor`; row-level security holds for the owner as well.
    "create policy owner_reads on formulary.halt for select to current_user using (true)",
    f"grant select on formulary.halt to {SERVER}",
    f"grant select, insert, update, delete on formulary.halt to {WRITER}",
    f"grant select, insert, delete on formulary.run_start to {WRITER}",
]


def upgrade() -> None:
    """Add to what is there."""
    for statement in STATEMENTS:
        op.execute(statement)
