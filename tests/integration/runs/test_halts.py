"""The emergency stop as callers of a server meet it, and as a person at a terminal sees it."""

import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.runs.halting import HaltReader, HaltWriter
from support import playing
from support.commands import formulary
from support.runnable import TARGET, nobody_runs_anything
from support.serving import serving

INVOKE = "/api/v1/invoke"
STAGING = {"X-Remediation-Id": "rr-staging"}


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    async with serving(parts) as at:
        yield at


@pytest.fixture
async def http(url: str, dsn: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        nobody_runs_anything(dsn),
        playing.operator(dsn),
        httpx2.AsyncClient(base_url=url, timeout=50) as client,
    ):
        yield client


@pytest.fixture
async def halts(dsn: str) -> AsyncIterator[HaltWriter]:
    async with Database.opened(dsn, role=Role.WRITER, deadline=30) as database:
        yield HaltWriter(database)
        await database.execute("delete from halt")


async def search(http: httpx2.AsyncClient) -> list[str]:
    answer = await http.post("/api/v1/workflows/search", json={"query": "out of memory", "top_k": 5}, headers=STAGING)
    assert answer.status_code == 200, answer.text
    assert answer.json()["workflows"]
    return [str(note) for note in answer.json()["notes"]]


async def invoke(http: httpx2.AsyncClient) -> httpx2.Response:
    params = {"workflow_id": "scale-out", "input": {"REPLICAS": 3}}
    request = {"jsonrpc": "2.0", "id": 7, "method": "invoke_workflow", "params": params}
    return await http.post(INVOKE, json=request, headers=STAGING)


async def test_a_request_is_refused_with_the_reason_and_searches_go_on_and_say_it(
    http: httpx2.AsyncClient, halts: HaltWriter
) -> None:
    await halts.halt(namespace="", reason="restarts make it worse", by="ada")
    refused = await invoke(http)
    assert "was not run. Halted: runs are halted everywhere since" in refused.text
    assert "by ada: restarts make it worse" in refused.text
    (note,) = [note for note in await search(http) if "halted" in note]
    assert "by ada: restarts make it worse; searches continue" in note
    assert (await http.get("/readyz")).json()["halted"] == "everywhere"
    lifted, left = await halts.resume(namespace="", by="ada")
    assert lifted is not None
    assert left == []
    assert "was not run" not in (await invoke(http)).text


async def test_a_halt_of_another_namespace_is_neither_met_nor_told(http: httpx2.AsyncClient, halts: HaltWriter) -> None:
    await halts.halt(namespace="secret-project", reason="nobody else's business", by="ada")
    assert "was not run" not in (await invoke(http)).text
    assert not [note for note in await search(http) if "business" in note]
    await halts.resume(namespace="secret-project", by="ada")


async def test_a_contract_halts_its_namespace_until_the_rule_is_gone(
    http: httpx2.AsyncClient, halts: HaltWriter, dsn: str
) -> None:
    async with Database.opened(dsn, role=Role.WRITER, deadline=30) as database:
        contracts = ContractWriter(database, shared_namespace="formulary")
        rule = {"id": "stop", "effect": "HALT", "rationale": "the cellar is full of water"}
        for _ in range(2):  # the second time nothing has changed
            halt = await contracts.save({"rules": [rule]}, namespace=TARGET, name="stop", uid="u", by="eve")
            assert halt is not None
        assert "the cellar is full of water" in (await invoke(http)).text
        assert await halts.resume(namespace=TARGET, by="ada") == (None, [halt])
        assert await contracts.save({"rules": []}, namespace=TARGET, name="stop", uid="u") is None
        assert await HaltReader(database).in_force() == []
        await contracts.save({"rules": [rule]}, namespace=TARGET, name="stop", uid="u")
        await contracts.remove(namespace=TARGET, name="stop")
        assert await HaltReader(database).in_force() == []


async def test_doctor_says_what_is_halted_and_how_it_is_lifted(halts: HaltWriter, dsn: str) -> None:
    await halts.halt(namespace="shop", reason="migration", by="ada")
    found = json.loads((await formulary("doctor", "--json", FORMULARY_DATABASE_URL=dsn)).out)
    (runs,) = [check for check in found["checks"] if check["name"] == "runs"]
    assert not runs["ok"]
    assert "halted in namespace shop since" in runs["detail"]
    assert runs["way_out"] == "`formulary resume --namespace shop`"
    await halts.resume(namespace="shop", by="ada")


async def test_a_halt_without_a_reason_is_none() -> None:
    refused = await formulary("halt", "--namespace", "shop", "--reason", "   ")
    assert refused.code == 2
    assert "the reason is empty; say why in 1 to 300 characters" in refused.err


@pytest.mark.parametrize("command", [("halt", "--reason", "x"), ("resume",)])
@pytest.mark.parametrize("namespace", ["", " "])
async def test_an_empty_namespace_is_not_everywhere(dsn: str, command: tuple[str, ...], namespace: str) -> None:
    refused = await formulary(*command, "--namespace", namespace, FORMULARY_DATABASE_URL=dsn)
    assert (refused.code, refused.out) == (2, "")
    assert "--namespace must not be empty; omit it for all namespaces" in refused.err
    async with Database.opened(dsn, role=Role.WRITER, deadline=30) as database:
        assert await HaltReader(database).in_force() == []


async def test_a_halt_that_is_lifted_promises_no_runs_where_another_holds(dsn: str, halts: HaltWriter) -> None:
    owned = {"FORMULARY_DATABASE_URL": dsn}
    none = await formulary("resume", **owned)
    assert (none.code, none.out) == (1, "no halt is in force everywhere\n")
    await halts.halt(namespace="", reason="flood", by="ada")
    await halts.halt(namespace="shop", reason="migration", by="ada")
    one = await formulary("resume", "--namespace", "shop", **owned)
    assert one.out.splitlines()[0] == "the halt in namespace shop is lifted"
    assert "still in force: runs are halted everywhere since" in one.out
    both = await formulary("resume", **owned)
    assert both.out == "the halt everywhere is lifted: new runs may begin\n"
