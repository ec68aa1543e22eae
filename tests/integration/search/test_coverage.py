"""Which alerts have a remedy, what was asked in vain, and which workflows are stale or say the same."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.access import EVERYTHING, Access, Caller
from formulary_catalog.domain.coverage.alerts import Alert
from formulary_catalog.domain.coverage.answers import CoverageAnswer
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import InvalidInput, NotAllowed
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.loading.rule_files import alerts_in_files
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.services.workflows.coverage import Coverage
from formulary_catalog.services.workflows.upkeep import Upkeep
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import Rights
from support.filling import fill, starter_documents
from support.manifest import workflow
from support.services import open_parts, service_on
from support.trail import recorded

RULES = Path(__file__).with_name("coverage") / "forty_alerts.yaml"
LEAD = Caller(name="lead", access=EVERYTHING)
NO_CONTEXT = ContextReference()
LABELS: dict[str, Any] = workflow("x")["spec"]["labels"]
WHAT_FOR = "Restarts a pod of which a container was OOMKilled, killed since it was out of memory."
TABLE = {
    "KubePodCrashLooping": ("covered", "init-container-correct"),  # judged: a weak one
    "KubePodNotReady": ("covered", "readiness-probe-correct"),  # judged: a weak one
    "KubeDeploymentReplicasMismatch": ("covered", "rollout-stuck-undo"),
    "KubeDeploymentRolloutStuck": ("covered", "rollout-stuck-undo"),
    "KubeStatefulSetReplicasMismatch": ("covered", "statefulset-stuck-force-rollout"),
    "KubeStatefulSetUpdateNotRolledOut": ("covered", "statefulset-lift-partition"),
    "KubeDaemonSetMisScheduled": ("covered", "daemonset-tolerate-taint"),  # judged: none
    "KubeJobFailed": ("covered", "job-backoff-rerun-clean"),
    "KubeHpaMaxedOut": ("covered", "hpa-max-raise-ceiling"),
    "CheckoutContainersKilledForMemory": ("covered", "oom-raise-memory-limit"),
    "ImagesCannotBePulled": ("covered", "imagepull-renew-pull-secret"),
    "KubeQuotaExceeded": ("covered", "quota-exceeded-raise"),
    "KubeCPUOvercommit": ("covered", "scheduling-add-node-capacity"),
    "CPUThrottlingHigh": ("covered", "cpu-raise-limit"),
    "KubePersistentVolumeFillingUp": ("covered", "pvc-full-expand"),
    "KubePersistentVolumeErrors": ("covered", "pv-release-for-rebinding"),
    "TeamBudgetExceeded": ("weak", "quota-exceeded-raise"),
    "KubeNodeNotReady": ("covered", "node-notready-drain-replace"),
    "KubeletDown": ("covered", "node-notready-restart-kubelet"),
    "NodeFilesystemAlmostOutOfSpace": ("covered", "node-disk-pressure-prune-images"),
    "NodeClockNotSynchronising": ("covered", "node-resync-clock"),
    "NodeRAIDDiskFailure": ("weak", "mount-reattach-stale-volume"),
    "NodeNetworkReceiveErrs": ("weak", "networkpolicy-allow-ingress"),
    "KubeAPIDown": ("weak", "namespace-remove-stale-apiservice"),
    "KubeSchedulerDown": ("declared_only", "controlplane-restart-static-pod"),  # judged: covered
    "KubeVersionMismatch": ("none", ""),
    "KubeClientCertificateExpiration": ("covered", "controlplane-renew-certificates"),
    "etcdInsufficientMembers": ("covered", "etcd-restore-quorum"),
    "etcdHighFsyncDurations": ("none", ""),
    "CoreDNSDown": ("covered", "dns-coredns-restart-scale"),
    "Watchdog": ("none", ""),
    "InfoInhibitor": ("none", ""),
    "PrometheusBadConfig": ("covered", "monitoring-remove-bad-rule"),
    "PrometheusRuleFailures": ("covered", "monitoring-remove-bad-rule"),
    "AlertmanagerFailedToSendAlerts": ("declared_only", "secret-correct-credentials"),  # judged: a weak one
    "NGINXTooMany500s": ("covered", "ingress-5xx-scale-controller"),
    "CertManagerCertExpirySoon": ("covered", "certificate-expired-renew"),
    "PostgresReplicationLag": ("weak", "wal-drop-stale-slot"),
    "KafkaConsumerLagGrowing": ("none", ""),
    "VaultSealed": ("none", ""),
}
"""State and best hit of each of the forty alerts over the starter catalog, looked at one by one."""
TIED = "KubeStatefulSetUpdateNotRolledOut", "statefulset-stuck-force-rollout"
"""An alert that says too little to tell its best hit from this one."""
BREAD = "bake bread in an oven"


def coverage(parts: CatalogParts) -> Coverage:
    return Coverage(parts, strict_keys=frozenset())


async def asked(
    service: CatalogService, query: str, *, by: str, access: Access = EVERYTHING, incident: str = ""
) -> str:
    request = search_request(query=query, context=ContextReference(remediation_id=incident))
    return (await service.search(request, caller=Caller(name=by, access=access))).search_id


def queries(answer: CoverageAnswer) -> list[tuple[str, int]]:
    return [(each.query, each.times) for each in answer.queries]


async def test_coverage_of_forty_alerts_is_what_a_person_found(
    parts: CatalogParts, workflows: CatalogWriter, embedder: Embedder, starter_catalog: Path
) -> None:
    await fill(workflows, starter_documents(starter_catalog), embedder=embedder)
    alerts = alerts_in_files(RULES).alerts
    answer = await coverage(parts).of_alerts(alerts, caller=LEAD)
    assert len(alerts) == 40
    found = {each.name: (each.state, each.workflow_id) for each in answer.signals}
    # Which is first there depends on the processor's arithmetic.
    tied = found[TIED[0]] == ("covered", TIED[1])
    assert found == TABLE | ({TIED[0]: ("covered", TIED[1])} if tied else {})


@pytest.fixture
async def words(database: str, workflows: CatalogWriter, contexts: ContextWriter) -> AsyncIterator[CatalogParts]:
    """A catalog that ranks by words, with workflows and incidents of two tenants."""
    await fill(workflows, [workflow("restart-pod", labels=LABELS | {"signalType": ["OOMKilled"]}, what=WHAT_FOR)])
    await fill(workflows, [workflow("vault-unseal", labels=LABELS | {"signalType": ["VaultSealed"]})], namespace="bank")
    for name in ("shop", "bank"):
        await contexts.save(RequestContext(namespace=name, name="oom", remediation_id=f"rr-{name}", signal_name=BANKS))
    async with open_parts(database) as opened:
        yield opened


BANKS = "VaultSealed"
SHOPPER = Caller(name="shopper", access=Rights(see={"formulary"}, use={"shop"}))
BANKER = Caller(name="banker", access=Rights(see={"formulary"}, use={"bank"}))
STRANGER = Caller(name="stranger", access=Rights(see={"formulary"}))


async def test_workflows_of_other_tenants_never_cover_anything(words: CatalogParts) -> None:
    alerts = [Alert(name=BANKS, summary="A vault is sealed.")]
    (lead,) = (await coverage(words).of_alerts(alerts, caller=LEAD)).signals
    assert (lead.state, lead.workflow_id, lead.declared_by) == ("covered", "vault-unseal", 1)
    (seen,) = (await coverage(words).of_alerts(alerts, caller=SHOPPER)).signals
    assert (seen.state, seen.workflow_id, seen.declared_by) == ("none", "", 0)
    assert BANKS not in [each.name for each in (await coverage(words).of_catalog(limit=1000, caller=SHOPPER)).signals]
    with pytest.raises(NotAllowed):
        await coverage(words).of_catalog(limit=1000, caller=Caller(name="nobody", access=Rights()))


async def test_it_is_counted_what_a_namespace_that_forbids_restarts_has_left_of_what_the_caller_sees(
    words: CatalogParts, workflows: CatalogWriter
) -> None:
    declaring = {"raise": {"restarts": "no"}, "both": {"restarts": ["no", "yes"]}, "any": {"restarts": "*"}}
    labels = LABELS | {"signalType": ["OOMKilled", "Evicted"]}
    await fill(workflows, [workflow(name, labels=labels, customLabels=each) for name, each in declaring.items()])
    for caller, served in ((LEAD, 5), (SHOPPER, 4)):
        notes = (await coverage(words).of_catalog(limit=1000, caller=caller)).notes
        assert f"a namespace that says restarts=no has 1 of {served} workflows left" in notes


async def test_only_searches_and_incidents_that_the_caller_may_read_count(words: CatalogParts) -> None:
    await asked(service_on(words), BREAD, by="agent", incident="rr-bank")
    await asked(service_on(words), BREAD, by="agent", incident="rr-bank")
    await asked(service_on(words), "knit a scarf", by="agent", incident="rr-shop")
    await asked(service_on(words), "paint a wall", by="agent")
    await asked(service_on(words), f"{BANKS} critical", by="agent", incident="rr-bank")
    seen = {}
    for caller in (LEAD, SHOPPER, BANKER, STRANGER):
        answer = await coverage(words).of_catalog(limit=1000, caller=caller)
        (signal,) = (await coverage(words).of_alerts([Alert(name=BANKS)], caller=caller)).signals
        seen[caller.name] = [query for query, _ in queries(answer)], signal.asked, signal.fired
    assert queries(await coverage(words).of_catalog(limit=1000, caller=LEAD))[0] == (BREAD, 2)
    assert seen["lead"] == ([BREAD, "knit a scarf", "paint a wall"], 1, 2)
    assert seen["shopper"] == (["knit a scarf"], 0, 1)
    assert seen["banker"] == ([BREAD], 1, 1)
    assert seen["stranger"] == ([], 0, 0)


async def test_demand_weighs_and_orders_what_is_not_covered(words: CatalogParts) -> None:
    await asked(service_on(words), "OOMKilled critical", by="agent")
    answer = await coverage(words).of_alerts(
        [Alert(name="OOMKilled"), Alert(name="BreadBurns"), Alert(name=BANKS)], caller=BANKER
    )
    assert [(each.name, each.state) for each in answer.signals] == [
        (BANKS, "none"),
        ("BreadBurns", "none"),
        ("OOMKilled", "covered"),
    ]
    assert answer.totals.demand_covered == 0.0
    lead = await coverage(words).of_alerts([Alert(name="OOMKilled"), Alert(name="BreadBurns")], caller=LEAD)
    assert lead.totals.demand_covered == 1.0


async def test_a_comparison_is_recorded_and_is_no_search(words: CatalogParts, database: str) -> None:
    await coverage(words).of_alerts([Alert(name="BreadBurns")], caller=LEAD)
    answer = await coverage(words).of_catalog(limit=1000, caller=LEAD)
    assert answer.queries == []
    admin = await asyncpg.connect(database)
    kinds = await admin.fetch("select kind, caller from formulary.trace_event order by kind")
    await admin.close()
    assert [(row["kind"], row["caller"]) for row in kinds] == [("read.coverage", "lead")] * 2


async def test_the_catalog_is_compared_with_the_canonical_signals_and_its_own(words: CatalogParts) -> None:
    answer = await coverage(words).of_catalog(limit=1000, caller=LEAD)
    by_name = {each.name: each for each in answer.signals}
    assert by_name["OOMKilled"].state == by_name[BANKS].state == "covered"
    assert by_name["NodeNotReady"].state == "none"
    assert answer.search_mode == "lexical"


async def test_workflows_are_stale_by_their_use_and_their_runs(words: CatalogParts, database: str) -> None:
    admin = await asyncpg.connect(database)
    await admin.execute("update formulary.workflow_version set created_at = now() - interval '100 days'")
    stale = await Upkeep(words).stale(limit=10, caller=LEAD)
    assert [(each.workflow_id, each.reason) for each in stale.workflows] == [
        ("restart-pod", "never-found"),
        ("vault-unseal", "never-found"),
    ]
    for _ in range(3):
        search_id = await asked(service_on(words), "OOMKilled", by="agent")
    stale = await Upkeep(words).stale(limit=10, caller=LEAD)
    assert [(each.workflow_id, each.reason, each.found, each.first) for each in stale.workflows] == [
        ("restart-pod", "never-chosen", 3, 3),
        ("vault-unseal", "never-found", 0, 0),
    ]
    await service_on(words).record_selection(
        workflow_id="restart-pod",
        reasoning="r",
        search_id=search_id,
        context=NO_CONTEXT,
        caller=Caller(name="agent", access=EVERYTHING),
    )
    assert [each.workflow_id for each in (await Upkeep(words).stale(limit=10, caller=LEAD)).workflows] == [
        "vault-unseal"
    ]
    await admin.execute(
        "insert into formulary.workflow_outcome (version_id, succeeded, failed) "
        "select version_id, 1, 3 from formulary.workflow_version where name = 'restart-pod'"
    )
    await admin.close()
    stale = await Upkeep(words).stale(limit=1, caller=LEAD)
    assert [(each.workflow_id, each.reason) for each in stale.workflows] == [("restart-pod", "fails")]
    assert (stale.total, stale.compared) == (2, 2)
    rest = await Upkeep(words).stale(limit=1, after=stale.next_cursor, caller=LEAD)
    assert ([each.workflow_id for each in rest.workflows], rest.total, rest.next_cursor) == (["vault-unseal"], 2, "")
    with pytest.raises(InvalidInput, match="belongs to another question"):
        await Upkeep(words).duplicates(limit=1, after=stale.next_cursor, caller=LEAD)
    seen = await Upkeep(words).stale(limit=10, caller=SHOPPER)
    assert ([each.workflow_id for each in seen.workflows], seen.compared) == (["restart-pod"], 1)


async def test_a_workflow_that_was_chosen_without_being_found_stays_never_chosen(words: CatalogParts) -> None:
    for _ in range(3):
        await asked(service_on(words), "OOMKilled", by="agent")
    in_vain = await asked(service_on(words), BREAD, by="agent")
    receipt = await service_on(words).record_selection(
        workflow_id="restart-pod",
        reasoning="r",
        search_id=in_vain,
        context=NO_CONTEXT,
        caller=Caller(name="agent", access=EVERYTHING),
    )
    assert receipt.supported is False
    (stale,) = (await Upkeep(words).stale(limit=10, caller=LEAD)).workflows
    assert (stale.workflow_id, stale.reason, stale.first) == ("restart-pod", "never-chosen", 3)


async def test_a_new_version_inherits_the_use_of_the_old_one(words: CatalogParts, workflows: CatalogWriter) -> None:
    for _ in range(3):
        await asked(service_on(words), "OOMKilled", by="agent")
    await fill(workflows, [workflow("restart-pod", version="2.0.0", labels=LABELS | {"signalType": ["OOMKilled"]})])
    (stale,) = (await Upkeep(words).stale(limit=10, caller=LEAD)).workflows
    assert (stale.workflow_id, stale.version, stale.reason) == ("restart-pod", "2.0.0", "never-chosen")


WHAT = "Raises the memory limit of a container and rolls its workload."


async def test_pairs_that_say_the_same_are_found_where_their_labels_overlap(
    service: CatalogService, parts: CatalogParts, workflows: CatalogWriter, embedder: Embedder
) -> None:
    def described(when: str) -> dict[str, Any]:
        return {"description": {"what": WHAT, "whenToUse": when}}

    limit = "A container was OOM killed because its memory limit is too low."
    documents = [
        workflow("raise-memory-limit", labels=LABELS | {"environment": ["production", "staging"]}, **described(limit)),
        workflow("memory-limit-raise", **described(limit)),
        workflow("raise-memory-limits", labels=LABELS | {"environment": ["test"]}, **described(limit)),
        workflow("renew-certificate", what="Renews a certificate.", actionType="RenewCertificate"),
    ]
    await fill(workflows, documents, embedder=embedder)
    await fill(workflows, [workflow("limits-of-the-bank", **described(limit))], namespace="bank", embedder=embedder)
    sees_shared = Caller(name="shared", access=Rights(see={"formulary"}, use={"*"}))
    await asked(service, "memory limit raise", by="agent", access=Rights(see={"formulary"}))
    answer = await Upkeep(parts).duplicates(limit=10, caller=sees_shared)
    (pair,) = answer.pairs
    assert {pair.workflow_id, pair.other_id} == {"formulary/raise-memory-limit", "formulary/memory-limit-raise"}
    assert pair.same_action
    assert pair.cosine >= answer.threshold
    assert answer.compared == 4
    everywhere = await Upkeep(parts).duplicates(limit=10, caller=LEAD)
    assert len(everywhere.pairs) == 3
    paged, after = list[str](), ""
    for _ in everywhere.pairs:
        page = await Upkeep(parts).duplicates(limit=1, after=after, caller=LEAD)
        paged += [each.other_id for each in page.pairs]
        after = page.next_cursor
    assert (paged, after) == ([each.other_id for each in everywhere.pairs], "")
    assert everywhere.compared == 5


async def test_the_one_that_the_other_replaces_and_that_never_led_is_named(
    parts: CatalogParts, workflows: CatalogWriter, embedder: Embedder
) -> None:
    text = {"what": WHAT, "whenToUse": "A container was OOM killed."}
    documents = [
        workflow("raise-memory-limit", labels=LABELS | {"environment": ["production", "staging"]}, description=text),
        workflow("raise-memory-limit-2", description=text),
    ]
    await fill(workflows, documents, embedder=embedder)
    (pair,) = (await Upkeep(parts).duplicates(limit=10, caller=LEAD)).pairs
    assert pair.never_first == "formulary/raise-memory-limit-2"


async def test_the_trail_names_no_summaries(words: CatalogParts, database: str) -> None:
    await coverage(words).of_alerts([Alert(name="BreadBurns", summary="secret recipe")], caller=LEAD)
    admin = await asyncpg.connect(database)
    (event,) = await recorded(admin)
    await admin.close()
    assert event["arguments"] == {"alerts": ["BreadBurns"]}
