"""Somebody who may write rules, or has the server's password, lets runs start that a person was to look at."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from formulary_catalog.domain.governance.contract import ApprovalReason
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs.service import InvocationService
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.owner import OwnerConnection as Connection
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.runs.contracts import ContractWriter
from support import playing
from support.invoking import asked
from support.runnable import PRODUCTION, STAGING, TARGET, nobody_runs_anything, runnable_database
from support.services import open_parts, service_on

ENGINES = ("job", "tekton", "argo")


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with runnable_database(postgres, tmp_path_factory.mktemp("manifests")) as database:
        yield database


@pytest.fixture(scope="module")
async def services(dsn: str) -> AsyncIterator[tuple[InvocationService, CatalogService]]:
    async with open_parts(dsn) as parts:
        yield Services.on(parts, settings=Settings()).invocations, service_on(parts)


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    async with nobody_runs_anything(dsn) as connection:
        yield connection


@pytest.fixture
async def rules(dsn: str, owner: asyncpg.Connection) -> AsyncIterator[ContractWriter]:
    async with Database.opened(dsn, role=Role.WRITER, deadline=10) as database:
        yield ContractWriter(database, shared_namespace="formulary")


@pytest.fixture
async def thief(dsn: str) -> AsyncIterator[Connection]:
    """Somebody who has the password of the server's role."""
    connection = await asyncpg.connect(dsn, user=Role.SERVER.value)
    yield connection
    await connection.close()


def _rule(effect: str, **more: Any) -> dict[str, Any]:
    return {"rules": [{"id": "only", "effect": effect, **more}]}


async def _state(service: InvocationService, workflow_id: str, dsn: str, *, at: ContextReference = STAGING) -> str:
    async with playing.operator(dsn, engines=ENGINES):
        return (await service.invoke(asked(workflow_id), context=at, caller=LOCAL)).state


@pytest.mark.parametrize(
    ("workflow", "reason"), [("on-tekton", "bundle"), ("on-pipeline", "bundle"), ("on-argo", "template")]
)
async def test_a_tenant_that_allows_low_risk_does_not_allow_pods_that_nobody_sees(
    services: tuple[InvocationService, CatalogService], dsn: str, rules: ContractWriter, workflow: str, reason: str
) -> None:
    broad = {"match": {"riskLevels": ["low"]}}
    for more, state in (
        (broad, "awaiting_approval"),
        ({**broad, "lifts": [each.value for each in ApprovalReason if each != reason]}, "awaiting_approval"),
        ({**broad, "lifts": [reason]}, "completed"),
        ({"match": {"workflows": [f"formulary/{workflow}"]}}, "completed"),
    ):
        await rules.save(_rule("ALLOW", **more), namespace=TARGET, name="own", uid="1")
        assert await _state(services[0], workflow, dsn, at=PRODUCTION) == state


async def test_a_tenant_that_names_everything_does_not_outrank_the_platform_that_requires_an_approval(
    services: tuple[InvocationService, CatalogService], dsn: str, rules: ContractWriter
) -> None:
    everything = _rule("ALLOW", lifts=[each.value for each in ApprovalReason])
    everything["rules"].append({"id": "named", "effect": "ALLOW", "match": {"workflows": ["formulary/scale-out"]}})
    await rules.save(everything, namespace=TARGET, name="own", uid="1")
    assert await _state(services[0], "scale-out", dsn) == "completed"
    await rules.save(_rule("REQUIRE_APPROVAL"), namespace="formulary", name="person", uid="2")
    assert await _state(services[0], "scale-out", dsn) == "awaiting_approval"


@pytest.mark.parametrize(
    ("by", "about", "returned", "before"),
    [
        ("nobody", "rr-staging", True, True),
        ("bob", "rr-staging", True, True),
        ("alice", "rr-elsewhere", True, True),
        ("alice", "rr-staging", False, True),
        ("alice", "rr-staging", True, False),
    ],
)
async def test_a_selection_that_the_server_forges_is_no_evidence_without_a_search_that_supports_it(
    services: tuple[InvocationService, CatalogService],
    dsn: str,
    rules: ContractWriter,
    thief: Connection,
    by: str,
    about: str,
    returned: bool,
    before: bool,
) -> None:
    service, catalog = services
    await rules.save(_rule("REQUIRE_EVIDENCE"), namespace="formulary", name="reasons", uid="1")
    version_id = (await catalog.details("fragile", context=STAGING, caller=LOCAL)).version_id
    search_id, alice = str(uuid4()), f"alice-{uuid4().hex}"
    chosen = {
        "caller": alice,
        "outcome": "ok",
        "search_id": search_id,
        "arguments": {"reasoning": "It fits."},
        "result": {"version_id": version_id, "supported": True},
    }
    searched = {
        "caller": alice if by == "alice" else by,
        "outcome": "ok",
        "search_id": search_id,
        "result": {"candidates": [{"version_id": version_id, "returned": returned}]},
    }
    events = [("rr-staging", "selection", chosen)]
    if by != "nobody":
        events.insert(0 if before else 1, (about, "search", searched))
    for trace_id, kind, payload in events:
        await thief.execute("select formulary.append_trace($1, $2, $3)", trace_id, kind, json.dumps(payload))
    assert await _state(service, "fragile", dsn) == "awaiting_approval"


async def test_a_selection_made_from_a_search_of_its_caller_is_evidence_whether_it_names_it_or_not(
    services: tuple[InvocationService, CatalogService], dsn: str, rules: ContractWriter
) -> None:
    service, catalog = services
    await rules.save(_rule("REQUIRE_EVIDENCE"), namespace="formulary", name="reasons", uid="1")
    chosen: dict[str, Any] = {"reasoning": "It fits.", "context": STAGING, "caller": LOCAL}
    for workflow in ("scale-out", "slow"):
        early = await catalog.record_selection(workflow_id=workflow, **chosen)
        assert (early.supported, "no search of yours" in early.notes[0]) == (False, True)
        assert await _state(service, workflow, dsn) == "awaiting_approval"
    found = await catalog.search(search_request(query="scale-out slow", context=STAGING, top_k=20), caller=LOCAL)
    for workflow, named in (("scale-out", ""), ("slow", found.search_id)):
        assert (await catalog.record_selection(workflow_id=workflow, search_id=named, **chosen)).supported
        assert await _state(service, workflow, dsn) == "completed"
