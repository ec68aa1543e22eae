"""Outcomes of runs: whether the problem went away, decided once for each run that changed something.

Runs that ended before have none, and nobody makes one up. `success_rate` counts what helped from now on, and is null
until five runs of a version have a known outcome.
"""

from importlib import import_module

from alembic import op

revision = "0043"
down_revision = "0042"

SERVER = "formulary_server"

# Who migrates need not be who owns what there is: a superuser may.
AS_OWNER = """
do $$
begin
    execute format('set local role %I', (
        select pg_get_userbyid(relowner) from pg_class where oid = 'formulary.invocation'::regclass));
end
$$
"""

COLUMNS = [
    # `verify_at` is when the outcome is due; null for a run that changed nothing. `observed` is what was seen of the
    # target so far.
    """
    alter table formulary.invocation
        add column outcome text not null default ''
            check (outcome in ('', 'Helped', 'NotHelped', 'Unknown', 'Relapsed')),
        add column feedback text not null default '',
        add column verify_at timestamptz,
        add column observed jsonb not null default '{}'
    """,
    """
    create index invocation_unverified on formulary.invocation (verify_at)
    where verify_at is not null and outcome = ''
    """,
    # The server asks for runs; what they came to is not for it to say.
    f"""
    create policy server_adds_no_outcome on formulary.invocation as restrictive for insert to {SERVER}
    with check (outcome = '' and feedback = '' and verify_at is null and observed = '{{}}')
    """,
    # `verified` counts the runs whose outcome is known.
    """
    alter table formulary.workflow_outcome
        add column helped integer not null default 0, add column verified integer not null default 0
    """,
]

_RATE = "outcome.succeeded::double precision / nullif(outcome.succeeded + outcome.failed, 0)"
_KNOWN_RATE = "case when outcome.verified >= 5 then outcome.helped::double precision / outcome.verified end"
# Wilson's interval at 95 %.
_BOUND = """
    case when outcome.verified >= 5 then (outcome.helped + 1.9208 %s 1.96 * sqrt(
        outcome.helped::double precision * (outcome.verified - outcome.helped) / outcome.verified + 0.9604
    )) / (outcome.verified + 3.8416) end
"""
_RUNS, _OUTCOMES = "runs", "outcomes"
ADDED = {
    _RUNS: {
        "outcome": (
            "nullif(run.outcome, '')",
            "Helped, NotHelped, Unknown or Relapsed; null until it is decided, and for a run that changed nothing.",
        )
    },
    _OUTCOMES: {
        "helped": ("outcome.helped", "Runs that helped."),
        "verified": ("outcome.verified", "Runs whose outcome is known: they helped, did not help, or relapsed."),
        "success_low": (_BOUND % "-", "Lower end of the 95 % interval of success_rate."),
        "success_high": (_BOUND % "+", "Upper end of the 95 % interval of success_rate."),
    },
}
MEANS = "Share of runs that helped, of those whose outcome is known, 0 to 1; null below 5 of these."


def _extended(view: str) -> str:
    """The view of revision 0040 with more columns at its end; what it shows to whom is the same."""
    analytics = import_module("formulary_catalog.store.migrations.versions.0040_analytics")
    _, query, columns = analytics.VIEWS[view]
    selected, source, rest = query.partition("\n        from ")
    added = ", ".join(expression for expression, _ in ADDED[view].values())
    names = ", ".join((*columns, *ADDED[view]))
    query = f"{selected.replace(_RATE, _KNOWN_RATE)}, {added}{source}{rest}"
    return f"create or replace view insight.{view} ({names}) with (security_barrier) as {query}"


def upgrade() -> None:
    """Add columns; two views of analytics show them."""
    op.execute(AS_OWNER)
    for statement in COLUMNS:
        op.execute(statement)
    for view, added in ADDED.items():
        op.execute(_extended(view))
        for column, (_, meaning) in added.items():
            op.execute(f"comment on column insight.{view}.{column} is '{meaning}'")
    op.execute(f"comment on column insight.outcomes.success_rate is '{MEANS}'")
