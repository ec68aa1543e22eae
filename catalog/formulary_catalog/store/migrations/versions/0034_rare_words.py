"""Which workflows hold a word that few hold: found by an index, however many workflows there are."""

from alembic import op

revision = "0034"
down_revision = "0033"

SERVER = "formulary_server"

STATEMENTS = [
    # With the tenant before each word, the words of others cost a caller nothing. Its cost is what keeps the planner
    # from reading all rows instead of the index.
    """
    create function formulary.tenant_words(tenant integer, lexemes tsvector) returns text[]
    language sql immutable parallel safe cost 10000 as $$
        select array_agg(tenant::text || ':' || lexeme) from unnest(tsvector_to_array(lexemes)) as lexeme
    $$
    """,
    # Without a list of what is pending, which every search would have to read through.
    """
    create index workflow_search_words on formulary.workflow_search
    using gin (formulary.tenant_words(tenant_id, lexemes) collate "C") with (fastupdate = off) where leading_row
    """,
    # Under row-level security no condition on words may use an index, so this reads as the owner, to whom a policy
    # shows all rows, and names the tenants itself. Nothing of a word that more than so many workflows hold.
    """
    create function formulary.holders(words text[], at_most integer) returns table (word text, version_id text)
    language sql stable security definer set search_path = formulary, pg_temp as $$
        select held.word, held.version_id from (
            select asked.word, found.version_id, count(*) over (partition by asked.word) as holders from (
                select each.word, array(
                    select tenant::text || ':' || each.word from unnest(visible_tenants()) as tenant) as tokens
                from unnest(words) as each (word) offset 0
            ) as asked cross join lateral (
                select version_id from workflow_search
                where leading_row and tenant_words(tenant_id, lexemes) collate "C" && asked.tokens limit at_most + 1
            ) as found
        ) as held where held.holders <= at_most
    $$
    """,
    "revoke all on function formulary.holders(text[], integer) from public",
    f"grant execute on function formulary.holders(text[], integer) to {SERVER}",
]


def upgrade() -> None:
    """Add the index and the function that asks it."""
    for statement in STATEMENTS:
        op.execute(statement)
