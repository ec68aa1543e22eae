"""A caller of the analytics tools sends SQL that builds big values, to keep a backend busy beyond its limit with them.

PostgreSQL looks at its timeout between rows and not within each call, so what one row may take is bounded before.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formulary_catalog.domain.analytics.relations import FIXED_COLUMNS, TEXT_COLUMNS
from formulary_catalog.domain.analytics.statement import single_select
from formulary_catalog.errors import FormularyError, InvalidInput
from formulary_catalog.store.analytics.sessions import ROLE
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import databases
from support.insight import LOCAL, NOWHERE, Stage, staged

SECONDS = 6.0
"""The 2 s of a statement, and what a busy machine adds."""
GONE_SECONDS = 20.0
_POSITION = "u as (select a||a||a||a||a||a as b, '8'||a||a||a as c from t) select position(c in b) from u"
_MANY = ",".join(["a*a"] * 300)


def _doubled(step: str, *, start: str, times: int) -> str:
    steps = "".join(f", t{n + 1} as (select {step} as x from t{n})" for n in range(times))
    return f"with t0 as ({start}){steps} select x from t{times}"


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        (f"with t as (select (10::numeric^65000-1)::text as a), {_POSITION}", "any number of digits; cast its numbers"),
        (f"with t as (select (1e65000-1)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select ('1e65000'::numeric-1)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select ('1e65000'-1.0)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select (E'1\\x6565000'-1.0)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select (('1e'||'65000')::numeric-1)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select coalesce(null, '1e65000', 1.5)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select ('[1'||'e65000]')::jsonb->>0 as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select 'x'::char(100000) || 'x' as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select round(1.5, 16383)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (
            f"with t as (select n::text as a from generate_series(1e65000-1, 1e65000) as n), {_POSITION}",
            "POSITION(c IN b)",
        ),
        (
            f"with p(x) as (select 10::numeric^6_5000), t as (select (x-1)::text as a from p), {_POSITION}",
            "underscores",
        ),
        (f"with t as (select (1e6_5000-1)::text as a), {_POSITION}", "underscores"),
        (f"with t as (select 'x'::char(100_000) || 'x' as a), {_POSITION}", "underscores"),
        (f"with t as (select 'x'::char(0x186a0) || 'x' as a), {_POSITION}", "decimal digits"),
        (f"with t as (select 'x'::char(0o303240) || 'x' as a), {_POSITION}", "decimal digits"),
        (f"with t as (select 'x'::char(0b11000011010100000) || 'x' as a), {_POSITION}", "decimal digits"),
        (f"with t as (select 'x'::bpchar('1_00000') || 'x' as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select ('1e6_5000'::numeric-1)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select ('1.e65000'::numeric-1)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select (E'1\\e65000'-1.0)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select (U&'1!006565000' uescape '!' - 1.0)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as (select (U&'1\\+00006565000' - 1.0)::text as a), {_POSITION}", "POSITION(c IN b)"),
        (f"with t as materialized (select '1e65_000'::numeric - 1 as a) select {_MANY} from t", "may work on one row"),
        (
            "select 10::numeric operator(pg_catalog.^) 65000",
            "names an operator as OPERATOR(…); write the operator itself",
        ),
        ("select 10::numeric Operator (pg_catalog.^) 65000", "write the operator itself"),
        (f"with t as (select string_agg(query, '') as a from searches), {_POSITION}", "POSITION(c IN b)"),
        (f"with t(a) as (select string_agg(query, '') from searches), {_POSITION}", "POSITION(c IN b)"),
        (
            f"with t as (select c::text as a from (select string_agg(query, '') from searches) c), {_POSITION}",
            "POSITION",
        ),
        (
            "select position(string_agg||'x' in string_agg) from (select string_agg(query, '') from searches) t",
            "POSITION",
        ),
        (
            "select (select position(y.b||'x' in y.b) from (select t.*) as y)"
            " from (select string_agg(query, '') as b from searches) as t",
            "POSITION",
        ),
        ("select split_part(x, x||'y', 2) from (select string_agg(query, '') from searches) t(x)", "SPLIT_PART"),
        ("select replace(replace(query, 'a', query), 'b', query) from searches", "REPLACE"),
        ("select array_agg(n) && array_agg(-n) from generate_series(1, 60000) as n", "&&"),
        ("select array(select 1) @> array(select 2)", "@>"),
        ("select array_agg(n) operator(pg_catalog.&&) array_agg(-n) from generate_series(1, 60000) as n", "OPERATOR"),
        ("select arrayoverlap(array_agg(n), array_agg(-n)) from generate_series(1, 60000) as n", "ARRAYOVERLAP"),
        ("select jsonb_agg(n) @> jsonb_agg(-n) from generate_series(1, 60000) as n", "@>"),
        ("select range_agg(int4range(n, n)) from generate_series(1, 9) as n", "RANGE_AGG"),
        (f"with t as (select 1e65000-1 as a) select {_MANY} from t", "AS MATERIALIZED"),
        (f"with t as (select query::numeric as a from searches) select {_MANY} from t", "a * a"),
        (_doubled("x*x", start="select 98765432.1 as x", times=20), "may work on one row"),
        (_doubled("x+x", start="select candidates as x from searches", times=20), "AS MATERIALIZED"),
        ("with recursive t(s) as (select 1.5 union all select s*s from t) select max(s) from t", "s * s"),
        (
            "with recursive t(s) as (select 'x' union all select s||s from t) select position('y'||s in s) from t",
            "POSITION",
        ),
        ("select exp(20000.0)", "any number of digits"),
        ("select 7::numeric ^ rank from candidates", "any number of digits"),
        ("select (20000.0).exp", "calls exp"),
        ("select (30000::int8).factorial", "calls factorial"),
        ("select n.factorial from generate_series(30000, 30000) as n", "calls factorial"),
    ],
)
def test_a_statement_whose_row_may_outlive_the_limit_is_refused(sql: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        single_select(sql)
    assert problem in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "sql",
    [
        "select workflow, string_agg(distinct query, ', ' order by query) from searches, catalog group by 1",
        "select workflow, left(string_agg(query, '; '), 200) || '…' from searches, catalog group by 1",
        "select workflow, array_to_string(array_agg(distinct query), ', ') from searches, catalog group by 1",
        "select round(100.0 * count(*) filter (where phase = 'Failed') / nullif(count(*), 0), 1) from runs",
        "select split_part(workflow, '/', 2), position('/' in workflow), replace(name, '-', ' ') from catalog",
        "select regexp_replace(lower(query), '\\d+', 'N', 'g') from searches where query ~* 'oom' and query like '%a%'",
        "select reasoning from selections where position(workflow in reasoning) > 0",
        "select s.query from searches s join approvals r on strpos(s.query, r.reason) > 0",
        "select lower(w) from searches, regexp_split_to_table(query, '\\s+') as w where length(w) > 3 group by 1",
        "with a as (select count(*) as n from runs), b as (select n + 1 as n from a), c as (select n * 2.5 as n from b)"
        " select round(n, 2), n * n, n / 3 from c",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 9) select sum(i), max(i * i) from n",
        "with recursive n(i) as (select 0.5 union all select i + 0.1 from n where i < 9) select sum(i), avg(i) from n",
        "select n, n * 1.5 from generate_series(0, 1, 0.1) as n",
        "select d::date from generate_series(now() - interval '7 days', now(), interval '1 day') as d",
        "select sqrt(avg(duration_seconds * duration_seconds) - avg(duration_seconds)^2) from runs",
        "select exp(avg(ln(duration_ms))::float8), 2 ^ 10, 2 ^ rank, 10.0 ^ 3 from searches, candidates",
        "select signal_types && array['oomkilled'], 'x' = any (signal_types), cardinality(signal_types) from catalog",
        "select jsonb_agg(jsonb_build_object('w', workflow, 'p', phase)), to_jsonb(max(phase)) from runs",
        "select t.count * 2 from (select count(*) from runs) as t",
        "select to_tsvector('english', query) @@ plainto_tsquery('oom') from searches",
        "select key, value from runs, jsonb_each_text(to_jsonb(runs))",
    ],
)
def test_what_people_ask_is_not_refused(sql: str) -> None:
    assert single_select(sql) == sql


@pytest.mark.parametrize("sql", ["select query::varchar(²) from searches", "select left(query, ²) from searches"])
def test_a_number_that_is_no_decimal_one_is_no_crash(sql: str) -> None:
    with contextlib.suppress(InvalidInput):
        single_select(sql)


def test_recursions_within_each_other_do_not_keep_the_check_busy() -> None:
    sql = "select i from t0"
    for depth in range(12):
        sql = f"with recursive t{depth}(i) as (select 1.5 union all select i * 2 from t{depth}, ({sql}) as x) {sql}"
    started = time.process_time()
    with pytest.raises(InvalidInput):
        single_select(sql[:4000])
    assert time.process_time() - started < 5


STARTS = [
    "select query as x from searches",
    "select candidates as x from searches",
    "select 1e9000 - 1 as x",
    "select '1e6_5000'::numeric as x",
    "select 10::numeric ^ 6_5000 as x",
    "select 98765.4321 as x",
    "select string_agg(workflow, '') as x from catalog, generate_series(1, 20000)",
    "select array_agg(n) as x from generate_series(1, 20000) as n",
    "select jsonb_agg(n) as x from generate_series(1, 20000) as n",
    "select c as x from catalog as c",
]
STEPS = [
    "x || x",
    "x || x || x || x",
    "x + x",
    "x * x",
    "x ^ 2",
    "x::text",
    "x::text::numeric",
    "x::char(2000)",
    "array[x, x]",
    "to_json(x)::text",
    "lower(x::text)",
    "left(x::text, 300)",
    "replace(x::text, 'a', x::text)",
    "string_agg(x::text, ',')",
    "case when x is null then x else x end",
    "coalesce(x, x)",
]
ENDS = [
    "x",
    "length(x::text)",
    "position(x::text || 'y' in x::text || x::text)",
    "split_part(x::text, x::text || 'y', 2)",
    "x && x",
    "x @> x",
    "x::text like '%a%b%c%'",
    ", ".join(["x * x"] * 90),
    "md5(x::text)",
]


@st.composite
def growing(draw: st.DrawFn) -> str:
    """A chain of definitions, each built from the one before."""
    parts = [f"t0 as ({draw(st.sampled_from(STARTS))})"]
    for number, step in enumerate(draw(st.lists(st.sampled_from(STEPS), max_size=12))):
        how = draw(st.sampled_from(["", "", "materialized ", "recursive"]))
        chosen = (
            f"select x, 1 as n from t{number} union all select {step}, n + 1 from t{number + 1} where n < 12"
            if how == "recursive"
            else f"select {step} as x from t{number}"
        )
        parts.append(f"t{number + 1} as {how.replace('recursive', '')}({chosen})")
    return f"with recursive {', '.join(parts)} select {draw(st.sampled_from(ENDS))} from t{len(parts) - 1}"


@pytest.fixture(scope="module")
async def stage(postgres: EmbeddedPostgres) -> AsyncIterator[Stage]:
    async with databases.migrated_database(postgres) as dsn, staged(dsn) as filled:
        yield filled


@pytest.fixture(scope="module")
async def superuser(stage: Stage) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(stage.dsn)
    yield connection
    await connection.close()


async def test_the_columns_whose_size_is_known_are_those_of_the_tables(superuser: asyncpg.Connection) -> None:
    rows = await superuser.fetch(
        "select attname::text as name, bool_and(atttypid in ('text'::regtype, 'text[]'::regtype)) as text from pg_class"
        " join pg_attribute on attrelid = pg_class.oid where relnamespace = 'insight'::regnamespace and relkind = 'v'"
        " and attnum > 0 group by 1"
    )
    assert {row["name"] for row in rows if row["text"]} == TEXT_COLUMNS
    assert {row["name"] for row in rows if not row["text"]} == FIXED_COLUMNS


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(sql=growing())
async def test_whatever_grows_is_refused_or_answered_in_time_by_one_backend(
    stage: Stage, superuser: asyncpg.Connection, sql: str
) -> None:
    service = stage.service()
    asking = asyncio.ensure_future(service.execute_query(sql, context=NOWHERE, caller=LOCAL))
    started = time.monotonic()
    while not asking.done():
        assert await _sessions(superuser) <= 1
        await asyncio.wait([asking], timeout=0.1)
    assert time.monotonic() - started < SECONDS
    if (error := asking.exception()) is not None:
        assert isinstance(error, FormularyError), error
    while sessions := await _sessions(superuser):
        assert sessions == 1
        assert time.monotonic() - started < GONE_SECONDS
        await superuser.fetchval("select pg_sleep(0.05)")


async def _sessions(superuser: asyncpg.Connection) -> int:
    return int(await superuser.fetchval("select count(*) from pg_stat_activity where usename = $1", ROLE))
