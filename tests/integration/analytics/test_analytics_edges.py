"""Analytics as programs, people and agents reach it: REST, commands, MCP tools."""

import csv
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import jsonschema
import pytest

from formulary_catalog.edges.mcp.tools import TOOLSETS
from formulary_catalog.operations.operation import Call
from formulary_catalog.operations.services import Services
from formulary_catalog.settings import LabelSpelling, Settings, Toolset
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import databases
from support.access import KnownCallers, Rights
from support.commands import answer_of, formulary
from support.insight import FOREIGN, LOCAL, NOWHERE, SHARED, SHOP, Stage, staged
from support.serving import serving

OF_THE_SHOP = {"X-Remediation-Id": "rr-shop"}
COUNT = "SELECT namespace, count(*) AS n FROM insight.runs GROUP BY 1 ORDER BY 1"


@pytest.fixture(scope="module")
async def stage(postgres: EmbeddedPostgres) -> AsyncIterator[Stage]:
    async with databases.migrated_database(postgres) as dsn, staged(dsn) as filled:
        yield filled


@pytest.fixture(scope="module")
async def url(stage: Stage) -> AsyncIterator[str]:
    async with serving(stage.parts, analytics_database_url=stage.insight_dsn) as address:
        yield address


async def test_rest_answers_a_statement_and_what_the_tables_are(url: str) -> None:
    async with httpx2.AsyncClient(base_url=f"{url}/api/v1/analytics") as client:
        answer = (await client.post("/query", json={"sql": COUNT})).json()
        assert (answer["columns"], answer["data"]) == (
            ["namespace", "n"],
            [{"namespace": "bank", "n": 1}, {"namespace": "shop", "n": 1}],
        )
        tables = (await client.get("/tables")).json()["tables"]
        assert {table["name"] for table in tables} >= {"insight.catalog", "insight.alerts"}
        schema = (await client.get("/tables/insight.outcomes")).json()
        assert [column["name"] for column in schema["columns"]][:2] == ["version_id", "workflow"]
        sample = (await client.get("/tables/catalog/sample", params={"n": 2})).json()
        assert sample["row_count"] == 2
        statistics = (await client.get("/tables/searches/statistics")).json()
        assert {column["name"]: column["count"] for column in statistics["columns"]}["query"] == 2
        own = (await client.post("/query", json={"sql": COUNT}, headers=OF_THE_SHOP)).json()
        assert own["data"] == [{"namespace": "shop", "n": 1}]


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"sql": "delete from insight.runs"}, "sql", "which is no SELECT"),
        ({"sql": "select 1; select 2"}, "sql", "more than one statement"),
        ({"sql": ""}, "sql", "sql"),
        ({"sql": "x" * 4001}, "sql", "4000"),
        ({"sql": "select 1", "max_rows": 0}, "max_rows", "1"),
        ({"sql": "select 1", "max_rows": 1001}, "max_rows", "1000"),
        ({"sql": "select 1", "max_rows": "many"}, "max_rows", "max_rows"),
        ({"sql": "select 1", "rows": 5}, "rows", "unknown"),
        ({"sql": ["select 1"]}, "sql", "sql"),
        ({}, "sql", "sql"),
    ],
)
async def test_bad_input_over_rest_is_one_clear_error(url: str, body: dict[str, Any], field: str, words: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as client:
        refused = await client.post("/api/v1/analytics/query", json=body)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["field"] == field
    assert words in error["message"]


async def test_a_server_that_asks_for_tokens_asks_for_the_right_and_shows_what_other_rights_show(stage: Stage) -> None:
    known = KnownCallers(
        alice=Rights(see={SHARED, SHOP}, use={SHOP}, read={SHOP}, analyse={"*"}),
        bob=Rights(see={SHARED, SHOP}, use={SHOP}, read={SHOP}),
    )
    async with (
        serving(stage.parts, authenticator=known, analytics_database_url=stage.insight_dsn) as address,
        httpx2.AsyncClient(base_url=address) as client,
    ):
        path, body = "/api/v1/analytics/query", {"sql": "select * from insight.searches"}
        own = await client.post(path, json=body, headers=OF_THE_SHOP | {"Authorization": "Bearer alice"})
        assert own.json()["row_count"] == 1
        assert not [word for word in FOREIGN if word in own.text]
        refused = await client.post(path, json=body, headers=OF_THE_SHOP | {"Authorization": "Bearer bob"})
        assert refused.status_code == 403
        assert "bob may not get analytics.formulary.dev" in refused.json()["error"]["message"]
        assert (await client.post(path, json=body)).status_code == 401


async def test_more_statements_than_allowed_are_429_with_when_to_come_back(stage: Stage) -> None:
    async with (
        serving(stage.parts, analytics_database_url=stage.insight_dsn, analytics_per_minute=1) as address,
        httpx2.AsyncClient(base_url=address) as client,
    ):
        assert (await client.post("/api/v1/analytics/query", json={"sql": "select 1"})).status_code == 200
        limited = await client.post("/api/v1/analytics/query", json={"sql": "select 1"})
    assert limited.status_code == 429
    assert 0 < int(limited.headers["Retry-After"]) <= 60


async def test_a_person_asks_a_server_or_a_database_and_gets_a_table_csv_or_json(stage: Stage, url: str) -> None:
    table = await formulary("query", COUNT, "--url", url)
    assert (table.code, table.err) == (0, answer_of(url))
    assert [line.split() for line in table.out.splitlines()] == [["namespace", "n"], ["bank", "1"], ["shop", "1"]]
    as_csv = await formulary("query", COUNT, "--csv", "--url", url)
    assert list(csv.reader(io.StringIO(as_csv.out))) == [["namespace", "n"], ["bank", "1"], ["shop", "1"]]
    served = await formulary("query", COUNT, "--json", "--url", url)
    stored = await formulary(
        "query",
        COUNT,
        "--json",
        "--database-url",
        stage.dsn,
        FORMULARY_ANALYTICS_DATABASE_URL=stage.insight_dsn,
    )
    assert json.loads(served.out) == json.loads(stored.out)
    bound = await formulary("query", COUNT, "--json", "--url", url, "--remediation-id", "rr-shop")
    assert json.loads(bound.out)["data"] == [{"namespace": "shop", "n": 1}]


async def test_a_person_reads_booleans_and_nulls_as_sql_spells_them(url: str) -> None:
    sql = "select true as yes, false as no, null as nothing, array[1, 2] as some"
    table = await formulary("query", sql, "--url", url)
    assert table.out.splitlines()[1].split() == ["true", "false", "[1,2]"]
    as_csv = await formulary("query", sql, "--csv", "--url", url)
    assert list(csv.reader(io.StringIO(as_csv.out)))[1] == ["true", "false", "", "[1,2]"]
    as_json = await formulary("query", sql, "--json", "--url", url)
    assert list(json.loads(as_json.out)["data"][0].values()) == [True, False, None, "[1,2]"]
    both = await formulary("query", sql, "--csv", "--json", "--url", url)
    assert both.code == 2
    assert "--csv and --json are given; give one of them" in both.out


async def test_a_person_is_told_what_is_wrong_in_one_line(stage: Stage, url: str) -> None:
    wrong = await formulary("query", "select * from insight.serches", "--url", url)
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == (
        "formulary: SQL reads 'serches', which is no table of insight; did you mean insight.searches?\n"
    )
    off = await formulary("query", "select 1", "--database-url", stage.dsn)
    assert off.code == 3
    assert "FORMULARY_ANALYTICS_DATABASE_URL" in off.err
    assert (await formulary("query", "select 1 where false", "--url", url)).code == 1


async def test_a_person_reads_what_the_tables_are(url: str) -> None:
    listed = await formulary("tables", "--url", url)
    assert "insight.approvals" in listed.out
    columns = await formulary("tables", "outcomes", "--url", url)
    assert "Share of runs that helped" in columns.out
    statistics = await formulary("tables", "outcomes", "--stats", "--json", "--url", url)
    assert json.loads(statistics.out)["table"] == "insight.outcomes"
    sample = await formulary("tables", "runs", "--sample", "1", "--json", "--url", url)
    assert json.loads(sample.out)["row_count"] == 1
    assert (await formulary("tables", "--stats", "--url", url)).code == 2


GIVEN: dict[str, dict[str, Any]] = {
    "execute_query": {"sql": "select * from insight.runs", "max_rows": 5},
    "list_tables": {},
    "get_schema": {"table": "insight.runs"},
    "get_sample": {"table": "searches", "n": "2"},
    "describe_stats": {"table": "catalog"},
}


@pytest.mark.parametrize("tool", TOOLSETS[Toolset.ANALYTICS], ids=lambda tool: str(tool.name))
async def test_every_tool_answers_by_its_output_schema_within_what_a_model_reads(stage: Stage, tool: Any) -> None:
    services = Services.on(stage.parts, settings=Settings(analytics_database_url=stage.insight_dsn))
    listed = tool.listed(spelling=LabelSpelling.DOTTED, with_clusters=False)
    assert listed.annotations.read_only_hint
    assert len(listed.description) < 420
    arguments = tool.arguments.read(GIVEN[tool.name])
    answer = await tool.operation.run(Call(services=services, arguments=arguments, context=NOWHERE, caller=LOCAL))
    jsonschema.validate(answer.as_json(), listed.output_schema)
    assert len(answer.model_dump_json()) <= 8192
    assert "team-secret" not in answer.model_dump_json()
