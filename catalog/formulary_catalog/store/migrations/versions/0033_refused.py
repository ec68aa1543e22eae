"""What the operator refused to take into the catalog, and how it last compared the cluster with it, for people."""

from alembic import op

revision = "0033"
down_revision = "0032"

SERVER = "formulary_server"
WRITER = "formulary_writer"

STATEMENTS = [
    # The words are those of the object's condition Ready; `since` is its last transition.
    """
    create table formulary.refused_workflow (
        tenant_id integer not null references formulary.tenant,
        namespace text collate "C" not null,
        name text collate "C" not null,
        version text not null,
        reason text not null,
        message text not null,
        since timestamptz not null,
        primary key (namespace, name)
    )
    """,
    "alter table formulary.refused_workflow enable row level security",
    "alter table formulary.refused_workflow force row level security",
    f"create policy writer on formulary.refused_workflow to {WRITER} using (true) with check (true)",
    f"""
    create policy server on formulary.refused_workflow for select to {SERVER}
    using (tenant_id = any ((select formulary.visible_tenants())::integer[]))
    """,
    "create policy owner_looks on formulary.refused_workflow for select to current_user using (true)",
    f"grant select on formulary.refused_workflow to {SERVER}",
    f"grant select, insert, update, delete on formulary.refused_workflow to {WRITER}",
    # Numbers alone, which are for everybody: the objects of a refused sweep are in `sweep_refusal`.
    """
    create table formulary.resync (
        operator text collate "C" primary key,
        finished_at timestamptz not null,
        every_seconds double precision not null,
        listed integer not null,
        differed integer not null,
        sweep text not null,
        missing integer not null,
        served integer not null
    )
    """,
    f"grant select on formulary.resync to {SERVER}",
    f"grant select, insert, update, delete on formulary.resync to {WRITER}",
]


def upgrade() -> None:
    """Add the tables; the next resync of the operator fills them."""
    for statement in STATEMENTS:
        op.execute(statement)
