"""Which statements are refused before they are sent, and what the refusal says."""

import time
from contextlib import suppress

import pytest

from formulary_catalog.domain.analytics.statement import MAX_LENGTH, require_table, single_select
from formulary_catalog.errors import InvalidInput


@pytest.mark.parametrize(
    "sql",
    [
        "select 1",
        "SELECT * FROM insight.catalog",
        "select * from Catalog as c join INSIGHT.Runs r on r.workflow = c.workflow",
        "-- first\n/* second */ select 1",
        "select ';' as semicolon, '--' as dashes, $$ ; $$ as dollars",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 9) select * from n",
        "select percentile_cont(array[0.5, 0.95]) within group (order by duration_ms) from searches",
        "select sum(candidates) over (partition by mode order by at range between '1 day' preceding and current row)"
        " from searches",
        "select pg_typeof(at), pg_column_size(query) from searches",
        "select * from (values (1), (2)) as v(x), lateral generate_series(1, x) as g",
        "select * from runs a join runs b on true join runs c using (run_id) left join runs d on true"
        " join runs e on true join runs f on true join runs g on true",
        "select * from runs a cross join runs b cross join runs c cross join runs d cross join runs e cross join runs",
        "select * from runs a natural left join runs b natural join runs c natural join runs d natural full outer join"
        " runs e natural join runs f",
        "select * from runs a join runs b join runs c on true on true",
        "select (c).name, (c).*, insight.catalog.version, c.workflow from insight.catalog as c",
        "select u & x from (select 1 as u, 2 as x) as y",
        "select format('%s of %2$L is 100%%', name, version), format('plain') from insight.catalog",
        "table insight.outcomes",
        "values (1), (2)",
        "(select 1) union all (select 2)",
        "select x.* from unnest(array[1, 2]) with ordinality as x(n, place)",
    ],
)
def test_a_select_over_the_tables_is_sent_as_it_is(sql: str) -> None:
    assert single_select(sql) == sql


@pytest.mark.parametrize("end", [";", " ;\n", ";;", "; -- done", ";/* done */ ;"])
def test_semicolons_at_the_end_are_left_out(end: str) -> None:
    assert single_select(f"select 1{end}").strip() == "select 1"


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("", "is empty"),
        ("-- nothing", "begins with ''"),
        (";", "begins with ''"),
        ("x" * (MAX_LENGTH + 1), "has 4001 characters; write at most 4000"),
        ("select '\0'", "holds a character"),
        ("delete from insight.runs", "begins with 'delete', which is no SELECT"),
        ("explain select 1", "begins with 'explain', which is no SELECT"),
        ("select 1; select 2", "more than one statement"),
        ("with x as (delete from insight.runs returning *) select * from x", "changes or locks"),
        ("select * into mine from insight.runs", "changes or locks"),
        ("select * from insight.runs for share", "changes or locks"),
        ("select from where", "is not understood"),
        ("select * from formulary.invocation", "only tables of insight are readable: catalog, versions"),
        ("select * from other.insight.runs", "only tables of insight are readable"),
        ("select * from insight.run", "did you mean insight.runs?"),
        ("select * from invocation", "no table of insight"),
        ("select * from pg_roles", "no table of insight"),
        ("with pg_roles as (select 1) select * from pg_roles", "begins with pg_"),
        ("select pg_sleep(1)", "calls pg_sleep"),
        ('select "PG_SLEEP"(1)', "calls pg_sleep"),
        ("select pg_catalog . pg_sleep ( 1 )", "calls pg_sleep"),
        ('select U&"\\0070g_sleep"(1)', "calls"),
        ('select (1::float8).u&"\\0070g_sleep"', "calls"),
        ('select n.U&"\\0070g_sleep" from generate_series(1, 9) as n', "calls"),
        ("select (1.0::float8).pg_sleep", "calls pg_sleep"),
        ('select (1.0::float8)."pg_sleep"', "calls pg_sleep"),
        ("select (1.0::float8) . PG_SLEEP", "calls pg_sleep"),
        ("select (7204113604::int8).pg_advisory_lock", "calls pg_advisory_lock"),
        ("select (null::int4).pg_stat_get_activity", "calls pg_stat_get_activity"),
        ("select (pid).pg_cancel_backend from (select 1 as pid) as x", "calls pg_cancel_backend"),
        ("select x from (select 1) as x order by (1.0::float8).pg_sleep.y", "calls pg_sleep"),
        ("select (array[1.0::float8])[1].pg_sleep", "calls pg_sleep"),
        ("select n.pg_advisory_lock from generate_series(1, 9) as n", "calls pg_advisory_lock"),
        ("select * from pg_sleep(1)", "calls pg_sleep"),
        ("select set_config('a.b', 'c', true)", "calls set_config"),
        ("select nextval('x')", "calls nextval"),
        ("select repeat('x', 1000000000)", "fill the memory"),
        ("select rpad('x', 1000000000)", "fill the memory"),
        ("select array_fill(1::int8, array[60000000])", "fill the memory"),
        ("select format('%300000000s', 'x')", "leave widths out"),
        ("select format('%%%-300000000s', 'x')", "leave widths out"),
        ("select format('%1$*2$s', 'x', 300000000)", "leave widths out"),
        ("select format('%' || '300000000s', 'x')", "leave widths out"),
        ("select format(E'\\x25300000000s', 'x')", "leave widths out"),
        ("select format($$%300000000s$$, 'x')", "leave widths out"),
        ("select pg_catalog.format('%300000000s', 'x')", "leave widths out"),
        ("select \"format\"('%300000000s', 1)", "leave widths out"),
        ("select format(name) from insight.catalog", "leave widths out"),
        ("select " + "(" * 40 + "1" + ")" * 40, "nested too deep"),
        ("select * from runs a" + " join runs b" * 5, "more than 4 JOINs without ON"),
        ("select * from runs a" + " join (select * from runs b join runs c" * 3 + ")" * 3, "more than 4 JOINs"),
        ("select * from runs a" + " join runs b on true" * 21, "at most 20 JOINs"),
        ("select " + "array[" * 8 + "1" + "]" * 8, "nested too deep"),
    ],
)
def test_anything_else_is_refused_with_what_to_do(sql: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        single_select(sql)
    assert problem in str(refused.value)
    assert refused.value.field == "sql"
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "opening", ["timestamp(", "struct(", "array[", "x[", "interval(", "date(", "map(", "json(", "row(", "(select "]
)
def test_no_nesting_makes_the_parser_take_long(opening: str) -> None:
    closing = "]" if "[" in opening else ")"
    single_select("select 1")  # imports the parser
    started = time.process_time()
    for depth in range(1, 40):
        try:
            single_select("select " + opening * depth + "1" + closing * depth)
        except InvalidInput:
            break
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "part",
    [
        "catalog a join ",
        "catalog a left join ",
        "catalog a full outer join ",
        "catalog a straight_join ",
        "insight.cross join ",
        "insight.natural join ",
        "insight.on join ",
        "catalog a cross join catalog b on true join ",
        "(select * from catalog a join catalog b join ",
        "catalog a join (select distinct on (1) 1) b join ",
    ],
)
def test_no_joins_make_the_parser_take_long(part: str) -> None:
    single_select("select 1")
    for number in (4, 8, 16, 19, 20, 100):
        started = time.process_time()
        with suppress(InvalidInput):
            single_select("select * from " + part * number + "catalog z" + ")" * part.count("(") * number)
        assert time.process_time() - started < 1


@pytest.mark.parametrize("name", ["runs", "insight.runs", " Runs ", "INSIGHT.RUNS"])
def test_a_table_has_one_name_with_and_without_the_schema(name: str) -> None:
    assert require_table(name) == "runs"
