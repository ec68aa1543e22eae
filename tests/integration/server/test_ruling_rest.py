"""The emergency stop and contracts that are tried, over REST and on the command line, each under a person's rights."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from formulary_catalog.domain.runs.run import Invocation, Phase
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.governance import rehearsing
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.runs.halting import HaltWriter
from formulary_catalog.store.runs.submission import InvocationStore
from support import playing
from support.access import EVERYWHERE, KnownCallers, Rights
from support.commands import Finished, formulary
from support.databases import migrated_database
from support.manifest import contract, text
from support.runs import HARMLESS, request
from support.services import open_parts
from support.serving import serving

CALLERS = KnownCallers(
    sre=Rights(read={"shop"}, contracts={"shop"}, halt={"shop"}, lift={"shop"}),
    starter=Rights(read={"shop"}, halt={"shop"}),
    reader=Rights(contracts={"shop"}),
    writer=Rights(read={"shop"}, contracts={"formulary"}),
    platform=Rights(halt={"formulary", "shpo"}, lift={"formulary", "shpo"}),
    auditor=Rights(use={EVERYWHERE}, read={EVERYWHERE}, contracts={EVERYWHERE}),
    guard=Rights(read={"shop"}, lift={"shpo"}),
    nobody=Rights(),
)
RISKY = {"id": "risky", "effect": "DENY", "match": {"riskLevels": ["high"]}, "rationale": "Too risky."}


@dataclass(frozen=True)
class World:
    """A server, and runs in `shop` that were allowed, wait and were denied, and one that waits in `bank`."""

    url: str
    dsn: str
    runs: dict[str, Invocation]
    client: httpx2.AsyncClient

    async def post(self, path: str, *, by: str, **body: Any) -> httpx2.Response:
        return await self.client.post(f"/api/v1{path}", json=body, headers={"Authorization": f"Bearer {by}"})

    async def done(self, path: str, *, by: str, **body: Any) -> Any:
        response = await self.post(path, by=by, **body)
        assert response.status_code == 200, response.text
        return response.json()

    async def halts(self, *, by: str, **query: str) -> list[str]:
        headers = {"Authorization": f"Bearer {by}"}
        response = await self.client.get("/api/v1/halts", params=query, headers=headers)
        return [halt["namespace"] for halt in response.raise_for_status().json()["halts"]]

    async def rehearsed(self, *rules: dict[str, Any], by: str, namespace: str = "shop", **options: Any) -> Any:
        return await self.done("/contracts/rehearse", by=by, manifest=manifest(*rules, namespace=namespace), **options)

    async def command(self, *arguments: str, by: str) -> Finished:
        return await formulary(*arguments, FORMULARY_URL=self.url, FORMULARY_TOKEN=by)

    def name_of(self, invocation_id: str) -> str:
        return next(name for name, run in self.runs.items() if run.id == invocation_id)


def manifest(*rules: dict[str, Any], namespace: str = "shop", name: str = "c") -> str:
    document = contract(name)
    document["metadata"]["namespace"] = namespace
    document["spec"]["rules"] = list(rules)
    return text(document)


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    async with migrated_database(postgres) as database:
        yield database


@pytest.fixture(scope="module")
async def parts(dsn: str) -> AsyncIterator[CatalogParts]:
    async with open_parts(dsn) as opened:
        yield opened


@pytest.fixture(scope="module")
async def asking(dsn: str) -> AsyncIterator[InvocationStore]:
    async with Database.opened(dsn, role=Role.SERVER, deadline=30) as database:
        yield InvocationStore(database, shared_namespace="formulary")


@pytest.fixture(scope="module")
async def world(dsn: str, parts: CatalogParts, asking: InvocationStore) -> AsyncIterator[World]:
    async with Database.opened(dsn, role=Role.WRITER, deadline=30) as writing:
        contracts = ContractWriter(writing, shared_namespace="formulary")
        await contracts.save({"rules": [RISKY]}, namespace="shop", name="c", uid="u")
    facts = {
        "allowed": HARMLESS,
        "waiting": replace(HARMLESS, environment="production"),
        "denied": replace(HARMLESS, risk_level="high"),
        "elsewhere": replace(HARMLESS, environment="production", namespace="bank"),
    }
    runs = {}
    for name, known in facts.items():
        new = request(facts=known, key=name, namespace=known.namespace, remediation_id=f"rr-{name}")
        runs[name] = (await asking.submit(new)).invocation
    async with (
        serving(parts, authenticator=CALLERS) as url,
        httpx2.AsyncClient(base_url=url, timeout=50) as client,
    ):
        yield World(url, dsn, runs, client)


async def test_newly_allowed_runs_come_first_with_both_reasons_in_words(world: World) -> None:
    allowing = {"id": "open", "effect": "ALLOW", "rationale": "Trust."}
    answer = await world.rehearsed(allowing, by="sre")
    assert [world.name_of(run["invocation_id"]) for run in answer["changes"]] == ["denied", "waiting"]
    denied, waiting = answer["changes"]
    assert (denied["change"], denied["before"]["outcome"], denied["after"]["outcome"]) == ("allowed", "BLOCK", "ALLOW")
    assert denied["before"]["why"] == ["DENY by rule risky of contract shop/c (Too risky.)"]
    assert denied["after"]["why"] == ["ALLOW by rule open of contract shop/c (Trust.)"]
    assert "the environment is production" in waiting["before"]["why"][0]
    assert [reason["reason"] for reason in denied["reasons"]] == ["workflow-risk"]
    assert waiting["reasons"] == [{"reason": "environment", "message": "the environment is production"}]
    assert (waiting["trace_id"], waiting["workflow_id"]) == ("rr-waiting", "formulary/restart")
    assert answer["changed"] == {"allowed": 2, "denied": 0, "waiting": 0, "dry_run": 0}
    assert (answer["runs"], answer["unchanged"], answer["replaces"], answer["complete"]) == (3, 1, True, True)
    assert answer["rules"] == [{"id": "open", "effect": "ALLOW", "decisions": 3}]


async def test_a_contract_of_another_name_is_added_to_those_in_force(world: World) -> None:
    freeze = contract("freeze", match={"environments": ["staging"]})
    freeze["metadata"]["namespace"] = "shop"
    answer = await world.done("/contracts/rehearse", by="sre", manifest=text(freeze))
    assert (answer["contract"], answer["replaces"]) == ("shop/freeze", False)
    assert [(world.name_of(run["invocation_id"]), run["change"]) for run in answer["changes"]] == [
        ("allowed", "denied")
    ]
    stopped = await world.rehearsed({"id": "stop", "effect": "HALT"}, by="sre")
    assert {(run["after"]["outcome"], len(run["reasons"])) for run in stopped["changes"]} == {("HALT", 0)}


async def test_what_is_in_force_changes_nothing(world: World) -> None:
    answer = await world.rehearsed(RISKY, by="sre")
    assert (answer["changes"], answer["unchanged"], answer["decided_otherwise"]) == ([], 3, 0)


async def test_only_runs_that_the_caller_may_read_are_counted(world: World) -> None:
    allowing = {"id": "open", "effect": "ALLOW"}
    assert (await world.rehearsed(allowing, by="auditor", namespace="formulary"))["runs"] == 4
    some = await world.rehearsed(allowing, by="writer", namespace="formulary")
    assert (some["runs"], {run["namespace"] for run in some["changes"]}) == (3, {"shop"})
    none = await world.rehearsed(allowing, by="reader")
    assert (none["runs"], "get workflowinvocations.formulary.dev" in none["notes"][0]) == (0, True)
    refused = await world.post("/contracts/rehearse", by="nobody", manifest=manifest(allowing))
    assert (refused.status_code, "may not get governancecontracts" in refused.text) == (403, True)


async def test_what_cannot_be_made_again_is_counted_with_the_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowing = {"id": "open", "effect": "ALLOW"}
    owner = await asyncpg.connect(world.dsn)
    transaction = "update formulary.decision_basis set basis = basis {change} where invocation_id = $1"
    try:
        before = await owner.fetch("select * from formulary.decision_basis")
        await owner.execute("delete from formulary.decision_basis where invocation_id = $1", world.runs["allowed"].id)
        change = "#- '{facts,workflow_name}'"
        await owner.execute(transaction.format(change=change), world.runs["denied"].id)
        answer = await world.rehearsed(allowing, by="sre")
        assert {group["reason"]: group["runs"] for group in answer["not_replayed"]} == {
            "decided by a release that did not record what its decisions turned on": 1,
            "facts are missing": 1,
        }
        assert (answer["runs"], len(answer["changes"])) == (1, 1)
    finally:
        await owner.execute("delete from formulary.decision_basis")
        for row in before:
            await owner.execute(
                "insert into formulary.decision_basis (invocation_id, namespace, at, outcome, basis) "
                "values ($1, $2, $3, $4, $5)",
                *(row[name] for name in ("invocation_id", "namespace", "at", "outcome", "basis")),
            )
        await owner.close()
    monkeypatch.setattr(rehearsing, "MOST", 2)
    cut = await world.rehearsed(allowing, by="sre")
    assert (cut["decisions"], cut["complete"], "only the newest 2 decisions" in cut["notes"][0]) == (2, False, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("apiVersion: formulary.dev/v1alpha1\nkind: [\n", "manifest: line 3: did not find expected node content"),
        ("\n\na: b: c\n", "manifest: line 3: mapping values are not allowed"),
        (text({"kind": "Pod", "apiVersion": "v1"}), "must hold one GovernanceContract of formulary.dev/v1alpha1, and"),
        (manifest(RISKY) + "---\n" + manifest(name="d"), "and holds 2 of them"),
        (
            manifest({**RISKY, "match": {"enviroments": ["production"]}}),
            "manifest: line 11: spec.rules.0.match.enviroments: is unknown; did you mean environments?",
        ),
        (manifest({**RISKY, "effect": "FORBID"}), "manifest: line 9: spec.rules.0.effect"),
        (manifest({"effect": "DENY"}), "spec.rules.0.id: is required"),
        ("", "manifest is missing"),
        ("- 1\n- 2\n", "is a list; a manifest is a map"),
        ("a" * 60_001, "manifest has 60001 characters"),
    ],
)
async def test_a_broken_manifest_is_refused_in_one_line_that_says_where(world: World, given: str, said: str) -> None:
    response = await world.post("/contracts/rehearse", by="sre", manifest=given)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32002)
    assert said in response.json()["error"]["message"]
    assert "\n" not in response.json()["error"]["message"]


async def test_what_is_asked_wrongly_is_refused(world: World, tmp_path: Path) -> None:
    bad = await world.post("/contracts/rehearse", by="sre", manifest=manifest(RISKY), since="nonsense")
    assert (bad.status_code, "since 'nonsense' is no time" in bad.text) == (400, True)
    unknown = await world.post("/contracts/rehearse", by="sre", manifest=manifest(RISKY), colour="red")
    assert (unknown.status_code, "unknown argument" in unknown.text) == (400, True)
    huge = await world.post("/contracts/rehearse", by="sre", manifest="#" * 2**20)
    assert (huge.status_code, "over 65536 bytes" in huge.text) == (413, True)
    file = tmp_path / "rules.yaml"
    file.write_text("#" * 2**20 + "\n" + manifest(RISKY))
    for arguments, said in (
        ([str(file)], "is larger than 1024 KiB"),
        ([str(tmp_path / "none.yaml")], "does not exist"),
    ):
        refused = await world.command("governance", "rehearse", *arguments, by="sre")
        assert (refused.code, said in refused.err) == (2, True)


async def test_a_contract_is_tried_on_the_command_line_without_a_database(world: World, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(manifest({"id": "open", "effect": "ALLOW", "rationale": "Trust."}))
    shown = await world.command("governance", "rehearse", str(file), "--since", "30d", by="sre")
    assert shown.code == 1, shown.err
    assert "Newly allowed: 2 runs" in shown.out
    page = " ".join(shown.out.split())
    assert "denied: DENY by rule risky of contract shop/c (Too risky.)" in page
    assert "reason workflow-risk: the workflow's risk level is high" in page
    assert "reason environment: the environment is production" in page
    as_json = await world.command("governance", "rehearse", str(file), "--json", by="sre")
    assert (as_json.code, json.loads(as_json.out)["changed"]["allowed"]) == (1, 2)
    file.write_text(manifest(RISKY))
    assert (await world.command("governance", "rehearse", str(file), by="sre")).code == 0
    file.write_text(manifest({**RISKY, "effect": "FORBID"}))
    broken = await world.command("governance", "rehearse", str(file), by="sre")
    assert (broken.code, f"{file}: line 9: spec.rules.0.effect" in broken.err) == (2, True)


async def test_a_run_that_was_decided_again_when_it_began_is_listed_once(world: World, asking: InvocationStore) -> None:
    facts = replace(HARMLESS, environment="production")
    run = (await asking.submit(request(facts=facts, key="approved", remediation_id="rr-approved"))).invocation
    said = {"invocation_id": run.id, "namespace": "shop", "approver": "ada", "reason": "seen"}
    async with Database.opened(world.dsn, role=Role.SERVER, deadline=30) as database:
        await ApprovalStore(database).add(NewApproval(**said, decision="Approve"))
    async with playing.run_writer(world.dsn) as runs:
        begun = await runs.begin(run.id, known={"unauthored": False})
        assert begun is not None
        assert begun.phase is Phase.RUNNING
        denying = {"id": "closed", "effect": "DENY", "match": {"environments": ["production"]}}
        denied = await world.rehearsed(denying, by="sre")
        (listed,) = [each for each in denied["changes"] if each["invocation_id"] == run.id]
        assert (listed["before"]["outcome"], listed["change"]) == ("AWAIT", "denied")
        assert denied["decisions"] == denied["runs"] + 1
        await runs.cancel(run.id, message="over")


async def test_a_person_halts_and_lifts_with_the_rights_on_contracts_and_in_their_name(
    world: World, asking: InvocationStore
) -> None:
    refused = await world.post("/halts", by="auditor", namespace="shop", reason="no")
    assert (refused.status_code, "auditor may not create governancecontracts" in refused.text) == (403, True)
    everywhere = await world.post("/halts", by="sre", reason="no")
    assert (everywhere.status_code, "in namespace formulary" in everywhere.text) == (403, True)
    halted = await world.done("/halts", by="sre", namespace="shop", reason="restarts make it worse")
    assert (halted["halted"]["by"], halted["halted"]["source"], halted["ended_runs"]) == ("sre", "server", 2)
    run = (await asking.submit(request(key="during", facts=HARMLESS))).invocation
    assert "by sre: restarts make it worse" in run.message
    assert await world.halts(by="sre") == ["shop"]
    assert await world.halts(by="platform") == []
    not_lifted = await world.post("/halts/lift", by="starter", namespace="shop")
    assert (not_lifted.status_code, "starter may not delete governancecontracts" in not_lifted.text) == (403, True)
    lifted = await world.done("/halts/lift", by="sre", namespace="shop", reason="better now")
    assert (lifted["lifted"]["namespace"], lifted["in_force"]) == ("shop", [])
    assert (await world.done("/halts/lift", by="sre", namespace="shop"))["lifted"] is None
    owner = await asyncpg.connect(world.dsn)
    rows = await owner.fetch(
        "select kind, caller from formulary.trace_event where kind like 'halt.%' order by kind, caller"
    )
    await owner.close()
    assert [tuple(row) for row in rows] == [
        ("halt.begun", "sre"),
        ("halt.lifted", "sre"),
        ("halt.refused", "auditor"),
        ("halt.refused", "sre"),
        ("halt.refused", "starter"),
    ]
    trace = await world.client.get(
        f"/api/v1/traces/{halted['halted']['trace_id']}", headers={"Authorization": "Bearer auditor"}
    )
    assert trace.json()["verification"]["passed"], trace.text
    assert "restarts make it worse" in trace.text


async def test_the_command_halts_and_resumes_over_a_server(world: World) -> None:
    halted = await world.command("halt", "--reason", "smoke", by="platform")
    assert (halted.code, "runs are halted everywhere since" in halted.out) == (0, True), halted.err
    assert "lift it with `formulary resume --url http" in halted.out
    assert await world.halts(by="nobody") == [""]
    refused = await world.command("resume", by="sre")
    assert (refused.code, "may not delete governancecontracts" in refused.err) == (2, True)
    lifted = await world.command("resume", "--json", by="platform")
    assert json.loads(lifted.out)["lifted"]["reason"] == "smoke"
    assert (await world.command("resume", by="platform")).code == 1


async def test_who_lifts_over_a_server_is_told_of_every_halt_that_it_may_see(world: World) -> None:
    await world.done("/halts", by="platform", reason="flood")
    await world.done("/halts", by="sre", namespace="shop", reason="migration")
    covered = await world.command("resume", "--namespace", "shop", by="sre")
    assert covered.out.splitlines()[0] == "the halt in namespace shop is lifted"
    await world.done("/halts", by="sre", namespace="shop", reason="migration")
    unseen = await world.done("/halts/lift", by="platform", namespace="shpo")
    assert [halt["namespace"] for halt in unseen["in_force"]] == [""]
    assert (await world.done("/halts/lift", by="platform"))["in_force"] == []
    misspelt = await world.command("resume", "--namespace", "shpo", by="guard")
    assert misspelt.out.splitlines()[0] == "no halt is in force in namespace shpo; did you mean shop?"
    assert "still in force: runs are halted in namespace shop since" in misspelt.out
    await world.done("/halts/lift", by="sre", namespace="shop")


async def test_a_halt_of_a_namespace_that_nothing_knows_says_so(world: World) -> None:
    unknown = "no workflow, run or incident of namespace 'shpo' is known; check the spelling"
    owned = {"FORMULARY_DATABASE_URL": world.dsn}
    over_server = await world.command("halt", "--namespace", "shpo", "--reason", "smoke", by="platform")
    assert (over_server.code, unknown in over_server.out) == (0, True), over_server.err
    assert (await world.command("resume", "--namespace", "shpo", by="platform")).code == 0
    at_database = await formulary("halt", "--namespace", "shpo", "--reason", "smoke", **owned)
    assert (at_database.code, unknown in at_database.out) == (0, True), at_database.err
    known = await formulary("halt", "--namespace", "shop", "--reason", "smoke", **owned)
    assert (known.code, "is known" in known.out) == (0, False), known.err
    for namespace in ("shpo", "shop"):
        assert (await formulary("resume", "--namespace", namespace, **owned)).code == 0


async def test_what_was_halted_at_the_database_is_lifted_there_alone(world: World) -> None:
    async with Database.opened(world.dsn, role=Role.WRITER, deadline=30) as writing:
        halts = HaltWriter(writing)
        await halts.halt(namespace="shop", reason="flood", by="root")
        again = await world.done("/halts", by="sre", namespace="shop", reason="me too")
        assert (again["halted"]["by"], again["ended_runs"], len(again["notes"])) == ("root", 0, 1)
        kept = await world.done("/halts/lift", by="sre", namespace="shop")
        assert (kept["lifted"], [halt["reason"] for halt in kept["in_force"]]) == (None, ["flood"])
        assert kept["in_force"][0]["way_out"] == "`formulary resume --namespace shop`"
        rule = {"id": "stop", "effect": "HALT", "rationale": "flood too"}
        contracts = ContractWriter(writing, shared_namespace="formulary")
        await contracts.save({"rules": [rule]}, namespace="shop", name="stop", uid="s")
        lifted, left = await halts.resume(namespace="shop", by="root")
        assert (lifted is not None, [halt.contract for halt in left]) == (True, ["shop/stop"])
        assert (await world.done("/halts/lift", by="sre", namespace="shop"))["lifted"] is None
        await contracts.remove(namespace="shop", name="stop")
        assert await world.halts(by="sre") == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"namespace": "shop"}, "reason is missing"),
        ({"namespace": "shop", "reason": "  "}, "reason"),
        ({"namespace": "shop", "reason": "x" * 301}, "reason has 301 characters"),
        ({"namespace": "shop,bank", "reason": "x"}, "is not the name of one"),
        ({"namespace": "Shop", "reason": "x"}, "is not the name of one"),
        ({"namespaces": "shop", "reason": "x"}, "unknown argument"),
        ({"namespace": "", "reason": "x"}, "namespace must not be empty; omit it for all namespaces"),
        ({"namespace": " ", "reason": "x"}, "namespace must not be empty; omit it for all namespaces"),
    ],
)
async def test_a_halt_that_is_asked_for_wrongly_halts_nothing(world: World, body: dict[str, str], said: str) -> None:
    refused = await world.post("/halts", by="sre", **body)
    assert (refused.status_code, said in refused.json()["error"]["message"]) == (400, True), refused.text
    assert await world.halts(by="sre") == []


async def test_an_empty_namespace_lifts_nothing(world: World) -> None:
    await world.done("/halts", by="platform", reason="smoke")
    refused = await world.post("/halts/lift", by="platform", namespace="")
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        400,
        "namespace must not be empty; omit it for all namespaces",
    )
    assert await world.halts(by="platform") == [""]
    await world.done("/halts/lift", by="platform")


async def test_no_run_that_races_a_halt_over_rest_goes_on_after_it(world: World, asking: InvocationStore) -> None:
    owner = await asyncpg.connect(world.dsn)
    try:
        for number in range(20):

            async def ask(key: str) -> None:
                await asking.submit(request(key=key, caller=key))

            asked = [asyncio.create_task(ask(f"race-{number}-{each}")) for each in range(6)]
            await asyncio.sleep(0)
            await world.done("/halts", by="sre", namespace="shop", reason="race")
            going_on = await owner.fetchval(
                "select count(*) from formulary.invocation where namespace = 'shop' and halted = '' "
                "and phase in ('Pending', 'AwaitingApproval', 'Running')"
            )
            assert going_on == 0
            await asyncio.gather(*asked)
            phases = await owner.fetch(
                "select phase, halted from formulary.invocation where idempotency_key <> '' and requester like $1",
                f"race-{number}-%",
            )
            assert len(phases) == 6
            assert all(row["halted"] or row["phase"] == "Halted" for row in phases)
            await world.done("/halts/lift", by="sre", namespace="shop")
    finally:
        await owner.close()
