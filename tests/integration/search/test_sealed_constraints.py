"""What an incident demanded, sealed beside its trace: written once, read by few, gone with the trace, enough to repeat
a search; and its digests in the events."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
import structlog

from formulary_catalog.domain.access import EVERYTHING, Caller, Right
from formulary_catalog.domain.audit.sealing import seal
from formulary_catalog.domain.incidents import RequestContext, constraints_of
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.errors import InvalidInput, NotFound, Unavailable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.explanation.service import Explaining
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.services.workflows.listing import Listing
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.audit.retention import Retention
from formulary_catalog.store.audit.sealed import SealedCopy, SealedReader
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.access import Rights
from support.commands import formulary
from support.filling import fill
from support.runnable import EVERYWHERE
from support.runs import request
from support.services import open_parts, service_on
from support.trail import age, event, recorded

KEY, VALUE, TIER = "k3y-team", "v4lue-payments", "t1er-gold"
CALLER = Caller(name="agent", access=EVERYTHING)
SRE = Caller(name="sre", access=Rights(use=["shop"], constraints=["shop"]))
STRANGER = Caller(name="stranger", access=Rights(see=["*"], use=["bank"]))
ANY_CLUSTER = {**EVERYWHERE, "signalType": "OOMKilled", "cluster": "*"}
INCIDENT = ContextReference(remediation_id="rr-1")
NOWHERE = ContextReference()
UNKNOWN = "00000000-0000-4000-8000-000000000000"
SHOP = RequestContext(
    namespace="shop",
    name="oom",
    remediation_id="rr-1",
    environment="production",
    priority="P0",
    cluster="eu-1",
    target_namespace="shop-apps",
    custom_labels={KEY: (VALUE, "v4lue-search")},
    strict_keys=frozenset({KEY}),
    detected_labels={"hpaenabled": "true"},
)

if TYPE_CHECKING:
    Owner = asyncpg.Connection[asyncpg.Record]
else:
    Owner = asyncpg.Connection


@pytest.fixture
async def owner(database: str) -> AsyncIterator[Owner]:
    connection = await asyncpg.connect(database, server_settings={"search_path": "formulary, public"})
    yield connection
    await connection.close()


@pytest.fixture
async def catalog(workflows: CatalogWriter, contexts: ContextWriter) -> None:
    """Two workflows and the incident `rr-1`, which excludes one of them."""
    await fill(
        workflows,
        [
            manifest.workflow("mine", labels=ANY_CLUSTER, customLabels={KEY: VALUE}),
            manifest.workflow("theirs", labels=ANY_CLUSTER, customLabels={KEY: "other"}),
        ],
    )
    await contexts.save(SHOP)


async def payloads(owner: Owner) -> list[dict[str, Any]]:
    return await recorded(owner)


async def copies(owner: Owner) -> int:
    found: int = await owner.fetchval("select count(*) from sealed_constraints")
    return found


async def sealed_copies(parts: CatalogParts, trace_id: str = "rr-1") -> list[SealedCopy]:
    """All copies of a trace, without a check of rights."""
    reader = SealedReader(parts.database)
    return await reader.copies(trace_id, namespaces=await reader.namespaces(trace_id))


def explaining(parts: CatalogParts) -> Explaining:
    """What shows people, of a recorded search, what its incident demanded."""
    return Explaining(parts, strict_keys=frozenset())


async def search(service: CatalogService, context: ContextReference = INCIDENT, **asked: Any) -> list[str]:
    answer = await service.search(search_request(query="OOMKilled", context=context, **asked), caller=CALLER)
    return [hit.workflow_id for hit in answer.workflows]


async def test_a_search_is_recorded_with_the_constraints_as_they_were_applied(
    catalog: None, service: CatalogService, owner: Owner
) -> None:
    request = search_request(
        query="OOMKilled critical memory",
        labels={"component": ["v1/Pod"], "environment": ["staging"]},
        exclude_keywords=["Drain Node"],
        context=INCIDENT,
    )
    answer = await service.search(request, caller=CALLER)
    (row,) = await payloads(owner)
    applied = row["constraints"]
    assert applied.pop("custom_labels").startswith("hmac-sha256:")
    assert applied.pop("strict_keys").startswith("hmac-sha256:")
    assert applied == {
        "given": {"component": ["v1/Pod"]},
        "incident": {"environment": "production", "priority": "P0", "cluster": "eu-1"},
        "detected": {"hpaenabled": "true"},
        "excluded": applied["excluded"],
        "inferred": {"signal_type": "OOMKilled", "severity": "critical"},
        "notes": answer.notes,
    }
    assert "environment was set by the incident's context, not by the call" in answer.notes
    assert "drain" in str(applied["excluded"])


async def test_a_search_without_an_incident_has_no_digest_and_no_copy(
    catalog: None, service: CatalogService, owner: Owner
) -> None:
    await search(service, NOWHERE, labels={"priority": ["P1"]})
    (row,) = await payloads(owner)
    assert row["constraints"]["given"] == {"priority": ["P1"]}
    assert not {"incident", "custom_labels", "strict_keys"} & row["constraints"].keys()
    assert ("sealed" in row, await copies(owner)) == (False, 0)


async def test_equal_custom_labels_have_equal_digests_whatever_the_incident(
    catalog: None, service: CatalogService, contexts: ContextWriter, owner: Owner
) -> None:
    others: dict[str, dict[str, tuple[str, ...]]] = {
        "rr-2": {KEY: ("v4lue-search", VALUE)},
        "rr-3": {KEY: (VALUE,)},
        "rr-4": {f"{KEY}-2": (VALUE, "v4lue-search")},
    }
    for remediation_id, labels in others.items():
        await contexts.save(
            RequestContext(namespace="bank", name=remediation_id, remediation_id=remediation_id, custom_labels=labels)
        )
    for remediation_id in ("rr-1", *others):
        await search(service, ContextReference(remediation_id=remediation_id))
    first, same, *different = [row["constraints"]["custom_labels"] for row in await payloads(owner)]
    assert first == same
    assert len({first, *different}) == 3


async def test_there_is_one_key_of_the_digests_and_it_is_another_in_every_database(
    plain_owner: str, owner: Owner
) -> None:
    other = await asyncpg.connect(plain_owner)
    keys = {await each.fetchval("select key from formulary.digest_key") for each in (owner, other)}
    await other.close()
    assert [len(key) for key in keys] == [32, 32]
    with pytest.raises(asyncpg.UniqueViolationError):
        await owner.execute("insert into digest_key (key) values ('x')")


async def test_a_trace_has_one_copy_for_each_content(
    catalog: None, service: CatalogService, parts: CatalogParts, contexts: ContextWriter, owner: Owner, database: str
) -> None:
    await search(service)
    await search(service)
    await service.details("mine", context=INCIDENT, caller=CALLER)
    await Listing(parts).page(context=INCIDENT, caller=CALLER)
    await service.record_selection(workflow_id="mine", reasoning="r", context=INCIDENT, caller=CALLER)
    with pytest.raises(NotFound):
        await service.details("theirs", context=INCIDENT, caller=CALLER)
    async with open_parts(database) as elsewhere:
        other = service_on(elsewhere)
        await search(other)
        assert await copies(owner) == 1
        (digest,) = {row["sealed"] for row in await payloads(owner)}
        assert digest == await owner.fetchval("select digest from sealed_constraints where trace_id = 'rr-1'")
        await contexts.save(RequestContext(namespace="shop", name="oom", remediation_id="rr-1", environment="staging"))
        await search(other)
    assert await copies(owner) == 2


async def test_a_copy_is_all_that_the_incident_demanded_and_the_search_can_be_repeated(
    catalog: None, service: CatalogService, parts: CatalogParts, contexts: ContextWriter, owner: Owner
) -> None:
    found = await search(service)
    await contexts.remove(namespace="shop", name="oom")
    (copy,) = await sealed_copies(parts)
    assert copy.incident is not None
    nothing: frozenset[str] = frozenset()
    assert constraints_of(copy.incident, strict_keys=nothing) == constraints_of(SHOP, strict_keys=nothing)
    assert (copy.incident.namespace, copy.incident.name) == ("shop", "oom")
    assert copy.incident.target_namespace == "shop-apps"
    (first,) = await payloads(owner)
    assert (copy.digest, abs(copy.at - datetime.now(UTC)).total_seconds() < 60) == (first["sealed"], True)
    await contexts.save(copy.incident)
    assert await search(service) == found == ["mine"]


async def test_strict_keys_of_the_settings_and_labels_of_the_caller_are_in_the_copy(
    catalog: None, database: str, owner: Owner
) -> None:
    async with open_parts(database, strict_custom_labels="region") as strict:
        await search(service_on(strict), custom_labels={"region": (TIER,)})
        await search(service_on(strict), NOWHERE, custom_labels={"region": (TIER,)})
        (copy,) = await sealed_copies(strict)
        assert copy.incident is not None
        assert copy.incident.custom_labels == {KEY: (VALUE, "v4lue-search"), "region": (TIER,)}
        assert copy.incident.strict_keys == {KEY, "region"}
        own = (await payloads(owner))[1]["trace_id"]
        (copy,) = await sealed_copies(strict, own)
        assert copy.incident is not None
        assert (copy.incident.namespace, copy.incident.custom_labels) == ("", {"region": (TIER,)})


async def test_who_may_read_constraints_reads_what_was_demanded_and_others_read_nothing(
    catalog: None, service: CatalogService, parts: CatalogParts, owner: Owner
) -> None:
    await search(service)
    (row,) = await payloads(owner)
    search_id = row["search_id"]
    shown = await explaining(parts).recorded(search_id, caller=SRE)
    assert shown.custom_labels == {KEY: [VALUE, "v4lue-search"]}
    refusals = {}
    for known in (search_id, UNKNOWN):
        with pytest.raises(NotFound, match=f"search '{known}'") as refusal:
            await explaining(parts).recorded(known, caller=STRANGER)
        refusals[known] = str(refusal.value)
    assert refusals[search_id] == refusals[UNKNOWN].replace(UNKNOWN, search_id)
    *_, first, second = await payloads(owner)
    for refused in (first, second):
        assert (refused["trace_id"].startswith("tr_"), refused["outcome"]) == (True, "NotFound")


async def test_where_rights_cannot_be_checked_known_and_unknown_searches_are_answered_alike(
    catalog: None, service: CatalogService, parts: CatalogParts, owner: Owner
) -> None:
    class Unknowable:
        async def allows(self, right: Right, *, namespace: str | None) -> bool:
            raise Unavailable("rights cannot be checked now; retry")

    await search(service)
    (row,) = await payloads(owner)
    for search_id in (row["search_id"], UNKNOWN):
        with pytest.raises(Unavailable, match="rights cannot be checked now"):
            await explaining(parts).recorded(search_id, caller=Caller(name="sre", access=Unknowable()))
    assert [row["trace_id"].startswith("tr_") for row in await payloads(owner)] == [False, True, True]


async def test_a_trace_of_two_namespaces_takes_the_right_in_both(
    catalog: None, service: CatalogService, parts: CatalogParts, contexts: ContextWriter, owner: Owner
) -> None:
    await search(service)
    await contexts.remove(namespace="shop", name="oom")
    await contexts.save(RequestContext(namespace="bank", name="oom", remediation_id="rr-1", environment="staging"))
    await search(service)
    found = [row["search_id"] for row in await payloads(owner)]
    for one in (SRE, STRANGER):
        for search_id in found:
            with pytest.raises(NotFound):
                await explaining(parts).recorded(search_id, caller=one)
    both = Caller(name="both", access=Rights(use=["shop", "bank"], constraints=["shop", "bank"]))
    assert [(await explaining(parts).recorded(search_id, caller=both)).demanded for search_id in found] == [
        {"environment": "production", "priority": "P0", "cluster": "eu-1", "hpaenabled": "true"},
        {"environment": "staging"},
    ]


@pytest.mark.parametrize("role", Role)
async def test_a_role_sees_no_copy_that_it_does_not_name_and_changes_none(
    catalog: None, service: CatalogService, database: str, owner: Owner, role: Role
) -> None:
    await search(service)
    connection = await asyncpg.connect(database, user=role.value, server_settings={"search_path": "formulary"})
    looks = "select count(*) from sealed_constraints"
    for statement in (
        "update sealed_constraints set namespace = 'bank'",
        "delete from sealed_constraints",
        "truncate sealed_constraints",
        "insert into sealed_constraints values ('rr-1', 'd', 'shop', '{}')",
        "update digest_key set key = 'x'",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    if role is Role.WRITER:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetchval(looks)
    else:
        for trace, namespaces, seen in (
            ("", "", 0),
            ("rr-1", "", 0),
            ("rr-1", "{bank}", 0),
            ("rr-2", "{shop}", 0),
            ("rr-1", "{bank,shop}", 1),
        ):
            async with connection.transaction():
                await connection.execute("select set_config('formulary.trace', $1, true)", trace)
                await connection.execute("select set_config('formulary.incident_namespaces', $1, true)", namespaces)
                assert await connection.fetchval(looks) == seen
        assert await connection.fetch("select * from sealed_namespaces('rr-1')") == []
    await connection.close()
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
        await owner.execute("update sealed_constraints set content = '{}'")


async def test_a_copy_that_somebody_changed_is_not_shown(
    catalog: None, service: CatalogService, parts: CatalogParts, owner: Owner
) -> None:
    await search(service)
    await owner.execute("alter table sealed_constraints disable trigger user")
    await owner.execute("update sealed_constraints set content = replace(content, 'production', 'staging')")
    (copy,) = await sealed_copies(parts)
    assert copy.incident is None
    (row,) = await payloads(owner)
    with pytest.raises(InvalidInput, match="were changed"):
        await explaining(parts).recorded(row["search_id"], caller=SRE)


async def test_a_run_seals_what_its_incident_demanded(writing: Database, serving: TraceStore, owner: Owner) -> None:
    strict: frozenset[str] = frozenset()
    runs = RunWriter(writing, shared_namespace="formulary")
    await runs.submit(request(sealed=seal(SHOP, strict_keys=strict)))
    await serving.append(event("rr-1", sealed=seal(SHOP, strict_keys=strict)))
    assert await copies(owner) == 1
    rows = {row["kind"]: row for row in await payloads(owner)}
    assert rows["invocation.requested"]["sealed"] == rows["details"]["sealed"]
    assert "sealed" not in rows["invocation.decided"]


@pytest.fixture
async def serving(database: str) -> AsyncIterator[TraceStore]:
    async with Database.opened(database, role=Role.SERVER, deadline=30) as opened:
        yield TraceStore(opened)


async def test_a_copy_goes_with_its_trace(serving: TraceStore, database: str, owner: Owner) -> None:
    sealed = seal(SHOP, strict_keys=frozenset())
    for trace_id in ("old", "held", "young"):
        await serving.append(event(trace_id, sealed=sealed))
    for trace_id in ("old", "held"):
        await age(owner, trace_id, at=datetime(2025, 3, 1, tzinfo=UTC))
    async with Retention.open(database) as retention:
        await retention.hold("held", reason="case 7", by="alice")
        await retention.expire(datetime(2026, 1, 1, tzinfo=UTC), key=None)
    kept = await owner.fetch("select trace_id from sealed_constraints order by 1")
    assert [row["trace_id"] for row in kept] == ["held", "young"]


async def test_an_owner_who_is_no_superuser_keeps_copies_too(plain_owner: str) -> None:
    async with Database.opened(plain_owner, role=Role.SERVER, deadline=30) as opened:
        traces, reader = TraceStore(opened), SealedReader(opened)
        await traces.append(event("rr-1", sealed=seal(SHOP, strict_keys=frozenset())))
        assert await reader.namespaces("rr-1") == ["shop"]
        (copy,) = await reader.copies("rr-1", namespaces=["shop"])
        assert copy.incident == SHOP
        owner = await asyncpg.connect(plain_owner, server_settings={"search_path": "formulary"})
        await age(owner, "rr-1", at=datetime(2025, 3, 1, tzinfo=UTC))
        async with Retention.open(plain_owner) as retention:
            (month,) = await retention.expire(datetime(2026, 1, 1, tzinfo=UTC), key=None)
        await owner.close()
        assert (month.traces, await reader.namespaces("rr-1")) == (1, [])


async def test_without_its_copy_no_answer_leaves(catalog: None, service: CatalogService, owner: Owner) -> None:
    await owner.execute("alter table sealed_constraints rename to gone")
    with pytest.raises(Unavailable) as refusal:
        await search(service)
    assert VALUE not in str(refusal.value)
    assert await payloads(owner) == []


def _texts(directory: Path) -> list[str]:
    return [file.read_text() for file in directory.rglob("*") if file.is_file()]


async def test_custom_labels_are_in_the_copy_and_nowhere_else(
    catalog: None, service: CatalogService, parts: CatalogParts, owner: Owner, database: str, tmp_path: Path
) -> None:
    with structlog.testing.capture_logs() as logged:
        await search(service, custom_labels={"tier": (TIER,)})
        (row,) = await payloads(owner)
        await explaining(parts).recorded(row["search_id"], caller=CALLER)
        with pytest.raises(NotFound):
            await explaining(parts).recorded(row["search_id"], caller=STRANGER)
    assert {TIER, VALUE} <= set(json.dumps(await owner.fetchval("select content from sealed_constraints")).split('\\"'))
    for command in (["show", "rr-1"], ["export", "rr-1", str(tmp_path)], ["verify", "rr-1"]):
        done = await formulary("trace", *command, "--database-url", database)
        assert done.code == 0, done.err
        assert not any(label in done.out for label in (KEY, VALUE, TIER))
    written = _texts(tmp_path)
    assert len(written) == 5
    bodies = await owner.fetchval("select string_agg(body, '') from trace_event")
    assert not any(label in text for label in (KEY, VALUE, TIER) for text in (*written, bodies, str(logged)))
    async with TraceReader.open(database) as reader:
        assert (await reader.verify()).passed
