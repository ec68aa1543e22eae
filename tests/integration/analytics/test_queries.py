"""What people and agents ask of `insight`: statements that must work, answers that fit, tables described."""

from collections.abc import AsyncIterator

import pytest

from formulary_catalog.domain.access import EVERYTHING
from formulary_catalog.domain.analytics.answers import QueryAnswer
from formulary_catalog.domain.analytics.statement import TABLES
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import InvalidInput, NotAllowed, NotSetUp
from formulary_catalog.services.analytics import AnalyticsService
from formulary_catalog.store.analytics.connection import MAX_COLUMNS
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import databases
from support.access import Rights
from support.insight import FOREIGN, LOCAL, NOWHERE, SHARED, SHOP, Stage, caller, staged

OF_THE_SHOP = ContextReference(remediation_id="rr-shop")
ALICE = caller(Rights(see={SHARED, SHOP}, use={SHOP}, read={SHOP}, analyse={"*"}))


@pytest.fixture(scope="module")
async def stage(postgres: EmbeddedPostgres) -> AsyncIterator[Stage]:
    async with databases.migrated_database(postgres) as dsn, staged(dsn) as filled:
        yield filled


def values(answer: QueryAnswer) -> list[list[object]]:
    return [list(row.values()) for row in answer.data]


@pytest.fixture
def analytics(stage: Stage) -> AnalyticsService:
    return stage.service()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) FROM insight.searches", [[2]]),
        ("-- how many?\nselect count(*) from searches;", [[2]]),
        ("/* all */ TABLE insight.outcomes", None),
        ("VALUES (1, 'a'), (2, NULL)", [[1, "a"], [2, None]]),
        ("select 1 as x, 2 as x, true, null, 1.5::float8", [[1, 2, True, None, 1.5]]),
        ("select 1.10::numeric, 'NaN'::float8, date '2026-01-02', array[1,2], '{\"a\": 1}'::jsonb", None),
        (
            "select avg(x), sum(x::bigint), round(avg(x), 2), null::numeric, 'NaN'::numeric "
            "from (values (1), (2)) v (x)",
            [[1.5, 3, 1.5, None, "nan"]],
        ),
        ("select percentile_cont(0.95) within group (order by duration_ms) > 0 from insight.searches", [[True]]),
        ("select percentile_disc(array[0.5, 0.9]) within group (order by confidence) from insight.candidates", None),
        ("with busy as (select caller, count(*) as n from insight.searches group by 1) select max(n) from busy", [[1]]),
        ("with recursive n(i) as (select 1 union all select i + 1 from n where i < 5) select sum(i) from n", [[15]]),
        (
            "select workflow, rank() over (partition by namespace order by confidence desc nulls last) from"
            " insight.candidates order by 1, 2 limit 1",
            [["bank/ledger-unlock", 1]],
        ),
        ("select count(*) filter (where status = 'Active') from insight.catalog", [[3]]),
        ("select distinct on (namespace) namespace from insight.runs order by namespace", [["bank"], ["shop"]]),
        (
            "select r.namespace, d.outcome, a.decision from insight.runs r join insight.decisions d using (run_id)"
            " left join insight.approvals a using (run_id) where r.namespace = 'shop'",
            [["shop", "ALLOW", "Approve"]],
        ),
        ("select date_trunc('day', at)::date <= current_date from insight.searches limit 1", [[True]]),
        ("select unnest(signal_types) as signal, count(*) from insight.catalog group by 1", [["oomkilled", 3]]),
        (
            "select s.namespace, r.phase from insight.searches s join insight.runs r using (remediation_id)"
            " where s.at <= r.created_at + interval '1 hour' order by 1 limit 1",
            None,
        ),
        ("select 1 union all select 2 except select 3 order by 1", [[1], [2]]),
        ("(select 1) union (select 2) order by 1 desc", [[2], [1]]),
        ("select grouping(namespace), count(*) from insight.runs group by rollup (namespace) order by 1, 2", None),
        ("select signal, severity from insight.alerts where gone_at is null limit 1", None),
        (
            "select array['a,b', 'c\"'], array[[1, 2]], array[true, null]",
            [['["a,b","c\\""]', "[[1,2]]", "[true,null]"]],
        ),
        (
            "select distinct a.signal, c.name from insight.alerts a join insight.catalog c"
            " on a.signal_type = any (c.signal_types) where c.namespace = 'formulary'",
            [["OOMKilled", "shared-restart"]],
        ),
        ("select signal_types from insight.catalog limit 1", [['["oomkilled"]']]),
    ],
)
async def test_selects_of_every_kind_are_answered(
    analytics: AnalyticsService, sql: str, rows: list[list[object]] | None
) -> None:
    answer = await analytics.execute_query(sql, context=NOWHERE, caller=LOCAL)
    assert answer.data
    assert rows is None or values(answer) == rows
    assert (answer.row_count, answer.truncated) == (len(answer.data), False)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select nme from insight.catalog", 'column "nme" does not exist'),
        ("select * from insight.serches", "did you mean insight.searches?"),
        ("select * from catalogue", "did you mean insight.catalog?"),
        ("select name from insight.catalog group by namespace", "must appear in the GROUP BY clause"),
        ("selct 1", "begins with 'selct', which is no SELECT"),
        ("select 1 from", "is not understood"),
        ("select " + "1" * 4000, "has 4007 characters; write at most 4000"),
        ("", "is empty"),
        ("select 1; select 2", "more than one statement"),
        ("select $1", "takes parameters"),
        ("select", "returns 0 columns; select 1 to 100"),
        ("select 1/0", "division by zero"),
        ("select 1e400", "out of range for type double precision"),
        ("select 'x'::int", "invalid input syntax for type integer"),
        ("select " + ", ".join(f"{n} as c{n}" for n in range(MAX_COLUMNS + 1)), "returns 101 columns"),
    ],
)
async def test_what_cannot_be_answered_is_one_clear_error(analytics: AnalyticsService, sql: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await analytics.execute_query(sql, context=NOWHERE, caller=LOCAL)
    assert message in str(refused.value)
    assert str(refused.value).startswith("sql ")
    assert "\n" not in str(refused.value)
    assert refused.value.field == "sql"


async def test_a_statement_with_more_rows_than_asked_for_says_so(analytics: AnalyticsService) -> None:
    answer = await analytics.execute_query(
        "select * from generate_series(1, 10)", context=NOWHERE, caller=LOCAL, max_rows=3
    )
    assert (values(answer), answer.truncated) == ([[1], [2], [3]], True)
    assert answer.notes == ["there are more than 3 rows; aggregate, or raise max_rows (at most 1000)"]


async def test_long_cells_are_cut_and_said_to_be(analytics: AnalyticsService) -> None:
    answer = await analytics.execute_query(
        "select string_agg('x', '') from generate_series(1, 9000)", context=NOWHERE, caller=LOCAL
    )
    ((cell,),) = values(answer)
    assert isinstance(cell, str)
    assert len(cell) == 500
    assert answer.truncated
    assert "cut to 500 characters" in answer.notes[0]


async def test_tables_are_listed_with_what_they_hold_and_how_many_rows_are_visible(
    analytics: AnalyticsService,
) -> None:
    every = await analytics.list_tables(context=NOWHERE, caller=LOCAL)
    assert [table.name for table in every.tables] == [f"insight.{table}" for table in TABLES]
    assert all(table.description and table.rows for table in every.tables)
    of_shop = await analytics.list_tables(context=OF_THE_SHOP, caller=ALICE)
    rows = {table.name: table.rows for table in of_shop.tables}
    assert (rows["insight.catalog"], rows["insight.searches"], rows["insight.runs"]) == (2, 1, 1)


@pytest.mark.parametrize("table", TABLES)
async def test_each_table_has_a_schema_a_sample_and_statistics(analytics: AnalyticsService, table: str) -> None:
    schema = await analytics.get_schema(table, context=NOWHERE, caller=LOCAL)
    assert all(column.type and column.description for column in schema.columns)
    sample = await analytics.get_sample(f"insight.{table}", context=NOWHERE, caller=LOCAL, n=1)
    assert (sample.columns, sample.row_count) == ([column.name for column in schema.columns], 1)
    statistics = await analytics.describe_stats(table, context=NOWHERE, caller=LOCAL)
    assert [column.name for column in statistics.columns] == sample.columns
    assert {column.count + column.nulls for column in statistics.columns} == {
        next(
            line.rows
            for line in (await analytics.list_tables(context=NOWHERE, caller=LOCAL)).tables
            if line.name == f"insight.{table}"
        )
    }


async def test_statistics_of_numbers_and_times(analytics: AnalyticsService) -> None:
    statistics = await analytics.describe_stats("outcomes", context=NOWHERE, caller=LOCAL)
    by_name = {column.name: column for column in statistics.columns}
    rate = by_name["success_rate"]
    assert (rate.count, rate.min, rate.max, rate.mean, rate.p50, rate.p95, rate.stddev) == (
        1,
        0.75,
        0.75,
        0.75,
        0.75,
        0.75,
        None,
    )
    assert (by_name["workflow"].min, by_name["workflow"].mean) == (None, None)
    times = {c.name: c for c in (await analytics.describe_stats("searches", context=NOWHERE, caller=LOCAL)).columns}
    assert str(times["at"].min) < str(times["at"].max)


@pytest.mark.parametrize("table", ["workflow_version", "formulary.tenant", "pg_class", "", "catalog; drop", "x" * 500])
async def test_a_table_that_does_not_exist_is_named_with_those_that_do(analytics: AnalyticsService, table: str) -> None:
    for ask in (analytics.get_schema, analytics.get_sample, analytics.describe_stats):
        with pytest.raises(InvalidInput, match=r"does not exist; (take one of catalog, versions|did you mean)"):
            await ask(table, context=NOWHERE, caller=LOCAL)


async def test_a_call_for_an_incident_sees_what_the_incident_allows(stage: Stage, analytics: AnalyticsService) -> None:
    everybody = caller(EVERYTHING, name="sre")
    for table in TABLES:
        answer = await analytics.get_sample(table, context=OF_THE_SHOP, caller=everybody, n=50)
        assert not [word for word in FOREIGN if word in answer.model_dump_json()], table
    bank = await analytics.execute_query(
        "select name from catalog order by 1", context=ContextReference(remediation_id="rr-bank"), caller=everybody
    )
    assert ["ledger-unlock"] in values(bank)


async def test_who_may_see_no_workflow_is_refused(analytics: AnalyticsService) -> None:
    nobody = caller(Rights(analyse={"*"}), name="nobody")
    with pytest.raises(NotAllowed, match="nobody may not list remediationworkflows"):
        await analytics.execute_query("select 1", context=NOWHERE, caller=nobody)


async def test_without_an_address_analytics_is_off_and_says_how_to_set_it_up(stage: Stage) -> None:
    analytics = stage.service(database=stage.database(dsn=""))
    with pytest.raises(NotSetUp, match="FORMULARY_ANALYTICS_DATABASE_URL"):
        await analytics.execute_query("select 1", context=NOWHERE, caller=LOCAL)
