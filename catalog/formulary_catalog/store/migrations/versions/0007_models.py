"""Which embedding model the catalog is served with, and which one is being prepared in its place."""

from alembic import op

revision = "0007"
down_revision = "0006"

SERVER = "formulary_server"
WRITER = "formulary_writer"

# At most one model in each state. `source` is what a process can find the model by, empty where only its id is known;
# `done` of `total` workflows have a vector of a model that is being prepared.
TABLE = """
create table formulary.embedding_model (
    model_id text collate "C" primary key,
    source text not null default '',
    state text collate "C" not null unique check (state in ('serving', 'preparing', 'previous')),
    done integer not null default 0,
    total integer not null default 0,
    since timestamptz not null default now(),
    changed_at timestamptz not null default now()
)
"""

# What served until now is what most search rows carry a vector of.
SERVED_SO_FAR = """
insert into formulary.embedding_model (model_id, state)
select model_id, 'serving' from formulary.workflow_search where model_id is not null
group by model_id order by count(*) desc, model_id limit 1
"""


def upgrade() -> None:
    """Add the table, with the model that serves already."""
    op.execute(TABLE)
    op.execute(f"grant select on formulary.embedding_model to {SERVER}")
    op.execute(f"grant select, insert, update, delete on formulary.embedding_model to {WRITER}")
    # Row-level security holds for the owner as well, who need not be a superuser.
    op.execute(f"set local role {WRITER}")
    op.execute(SERVED_SO_FAR)
    op.execute("reset role")
