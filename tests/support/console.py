"""What the console shows to its tests: two tenants with a past, and people with rights to parts of it."""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.coverage.alerts import Alert
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.alert_rules import AlertRuleWriter, RuleObject
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.resyncs import ResyncWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.refusals import RefusalWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.engines import engine_of
from formulary_operator.runs.plan import content_of, plan_of
from support import playing
from support.access import EVERYWHERE, KnownCallers, NotAnswered, Rights
from support.filling import fill, refusal
from support.manifest import workflow
from support.rest_agent import RestAgent, rest_agent
from support.services import open_parts
from support.serving import load, serving
from support.targets import example_reader

SHOP, BANK, STAGING = "rr-checkout-oom", "rr-ledger-full", "rr-search-oom"
"""Incidents in production, one of each tenant, and one of the first in staging, which is over."""
OF_THE_SHOP, OF_THE_BANK = ("checkout-oom", "shop-carts-trim"), ("ledger-full", "bank-journal-archive")
"""Words that are on no page of the other tenant's people."""
SHARED = "formulary"
QUERY = "OOMKilled exit code 137, working set at its limit"
_FULL = "KubePersistentVolumeFillingUp, no space left on device"
_INCIDENTS = (
    RequestContext(
        namespace="shop",
        name="checkout-oom",
        remediation_id=SHOP,
        environment="production",
        priority="P0",
        severity="critical",
        signal_name="OOMKilled",
        target_namespace="shop",
        target_api_version="apps/v1",
        target_kind="Deployment",
        target_name="checkout",
        custom_labels={"team": ("carts",)},
    ),
    RequestContext(
        namespace="shop",
        name="search-oom",
        remediation_id=STAGING,
        environment="staging",
        severity="high",
        signal_name="OOMKilled",
        target_namespace="shop",
        target_api_version="apps/v1",
        target_kind="Deployment",
        target_name="search",
    ),
    RequestContext(
        namespace="bank",
        name="ledger-full",
        remediation_id=BANK,
        environment="production",
        priority="P1",
        severity="critical",
        signal_name="KubePersistentVolumeFillingUp",
        target_namespace="bank",
        target_api_version="v1",
        target_kind="PersistentVolumeClaim",
        target_name="ledger-data",
        custom_labels={"team": ("journal",)},
    ),
)
_RUNS = {
    SHOP: (
        QUERY,
        "oom-raise-memory-limit",
        {"WORKLOAD": "deployment/checkout", "SELECTOR": "app=checkout", "CONTAINER": "web", "MEMORY_LIMIT": "768Mi"},
        "The working set levels off at the limit since the release of Tuesday; no leak.",
    ),
    STAGING: (
        QUERY,
        "oom-raise-memory-limit",
        {"WORKLOAD": "deployment/search", "SELECTOR": "app=search", "CONTAINER": "web", "MEMORY_LIMIT": "1Gi"},
        "Staging indexes the full catalog since Monday.",
    ),
    BANK: (
        _FULL,
        "pvc-full-expand",
        {"CLAIM": "ledger-data", "POD": "ledger-0", "SIZE": "200Gi", "FALLBACK_SIZE": "100Gi"},
        "The journal of the ledger may not be deleted.",
    ),
}
_ALERTS = {
    "shop": [
        Alert(name="KubePodCrashLooping", severity="warning", summary="Pod is crash looping."),
        Alert(name="CartsUnpaid", severity="info", summary="Carts wait for their payment."),
        Alert(name="Watchdog", ignored="always fires"),
    ],
    "bank": [Alert(name="JournalDiskFull", severity="critical", summary="The volume of the journal is full.")],
}
"""Of each tenant, as its PrometheusRule object defines them."""
_REFUSED = (
    refusal(
        "shop-carts-refund",
        namespace="shop",
        message="spec.labels.severity: got 1, which is no text; write critical, high, medium or low",
    ),
    refusal(
        "bank-journal-archive",
        namespace="bank",
        reason="VersionImmutable",
        message="spec.version: bank/bank-journal-archive 1.0.0 is already stored with other content; raise "
        "spec.version; version 1.0.0 stays served",
    ),
)
"""What the operator did not take of each tenant."""
_CONTRACTS: dict[str, list[dict[str, Any]]] = {
    SHARED: [
        {
            "id": "no-drains-at-month-end",
            "effect": "DENY",
            "match": {"actionTypes": ["ReplaceNode"], "environments": ["production"]},
            "rationale": "Nodes keep their volumes until the books are closed.",
        },
        {
            "id": "say-why",
            "effect": "REQUIRE_EVIDENCE",
            "rationale": "A run needs a recorded selection with its reasoning.",
        },
    ],
    "shop": [
        {
            "id": "restarts-in-staging",
            "effect": "ALLOW",
            "match": {"environments": ["staging"], "namespaces": ["shop"]},
            "rationale": "Staging of the shop may restart at any time.",
        }
    ],
    "bank": [
        {
            "id": "ledger-by-hand",
            "effect": "DEGRADE",
            "match": {"actionTypes": ["CleanupVolume"]},
            "rationale": "Journals are never deleted by a program.",
        }
    ],
}


class People(KnownCallers):
    """Knows people by their tokens, until these are revoked."""

    def __init__(self) -> None:
        both = {"shop", "bank"}
        here, there = {SHARED, "shop"}, {SHARED, "bank"}
        everything = Rights(
            rules={EVERYWHERE},
            see={EVERYWHERE},
            use={EVERYWHERE},
            constraints={EVERYWHERE},
            invoke={EVERYWHERE},
            read={EVERYWHERE},
            approve={EVERYWHERE},
            contracts={EVERYWHERE},
            analyse={EVERYWHERE},
            halt={EVERYWHERE},
            lift={EVERYWHERE},
            targets={EVERYWHERE},
        )
        super().__init__(
            **{
                "agent": Rights(see={EVERYWHERE}, use={EVERYWHERE}, invoke={EVERYWHERE}),
                # Rules and workflows of the shared namespace are everybody's.
                "ana": Rights(
                    rules={"shop"},
                    see=here,
                    use={"shop"},
                    constraints={"shop"},
                    invoke={"shop"},
                    read={"shop"},
                    approve={"shop"},
                    contracts=here,
                ),
                "ben": Rights(
                    rules={"bank"},
                    see=there,
                    use={"bank"},
                    constraints={"bank"},
                    invoke={"bank"},
                    read={"bank"},
                    approve={"bank"},
                    contracts=there,
                ),
                "reader": Rights(see=both | {SHARED}, use=both, constraints=both, read=both, contracts=both | {SHARED}),
                "lead": everything,
                "guest": everything,
                "nobody": Rights(),
                "unknown": NotAnswered(),
            }
        )
        self._revoked: set[str] = set()

    def revoke(self, token: str) -> None:
        """From now on the token proves nothing."""
        self._revoked.add(token)

    async def authenticate(self, authorization: Sequence[str], *, address: str) -> Caller:
        proven = [value for value in authorization if value.removeprefix("Bearer ") not in self._revoked]
        return await super().authenticate(proven, address=address)


class Agent(RestAgent):
    """An agent that knows how to remedy the incidents of the past."""

    async def run(self, incident: str) -> str:
        """Search, choose and ask for the run that heals the incident; the id of the run."""
        query, workflow_id, values, reasoning = _RUNS[incident]
        search_id = await self.search(incident, query)
        await self.select(incident, workflow_id, search_id=search_id, reasoning=reasoning)
        namespace = next(each.namespace for each in _INCIDENTS if each.remediation_id == incident)
        run = await self.invoke(incident, workflow_id, {"NAMESPACE": namespace, **values}, search_id=search_id)
        return str(run["invocation_id"])


@dataclass(frozen=True, slots=True)
class Console:
    """A server with a console, and who calls it."""

    url: str
    dsn: str
    people: People
    agent: Agent


async def write_past(dsn: str, *, starter_catalog: Path, embedder: Embedder, keys: Path) -> None:
    """Fill a migrated database: the starter catalog, a workflow and an incident of each tenant, rules and runs."""
    await load([starter_catalog], dsn=dsn, embedder=embedder)
    async with Database.opened(dsn, role=Role.WRITER, deadline=30) as writing:
        for namespace, name, title in (
            ("shop", "shop-carts-trim", "Trim the carts that nobody came back for"),
            ("bank", "bank-journal-archive", "Archive the journal of last year"),
        ):
            own = workflow(name, title=title, riskLevel="low", what=f"{title}, without a restart.")
            await fill(CatalogWriter(writing), [own], namespace=namespace, embedder=embedder)
        for incident in _INCIDENTS:
            await ContextWriter(writing).save(incident)
        for namespace, alerts in _ALERTS.items():
            await AlertRuleWriter(writing).replace(RuleObject(namespace, "house-rules"), alerts)
        for refused in _REFUSED:
            await RefusalWriter(writing).note(refused)
        await ResyncWriter(writing).note(
            "formulary/formulary-operator", listed=74, differed=0, refused=None, every_seconds=86_400
        )
        contracts = ContractWriter(writing, shared_namespace=SHARED)
        for namespace, rules in _CONTRACTS.items():
            await contracts.save({"rules": rules}, namespace=namespace, name="house-rules", uid=namespace)
    async with serve_console(dsn, embedder=embedder, keys=keys) as console:
        for remediation_id in (STAGING, SHOP, BANK):
            await render(dsn, await console.agent.run(remediation_id))
        await console.agent.search(SHOP, "GPU driver hangs after a kernel update")


@asynccontextmanager
async def serve_console(
    dsn: str, *, embedder: Embedder, keys: Path, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Console]:
    """A server on the database, with an operator that is played and people who prove themselves by tokens."""
    people = People()
    async with (
        open_parts(dsn, embedder=embedder, targets=example_reader()) as parts,
        serving(parts, authenticator=people, input_key_file=keys, tls=tls) as url,
        playing.operator(dsn),
        rest_agent(url) as agent,
    ):
        yield Console(url, dsn, people, Agent(agent.http))


async def render(dsn: str, run: str) -> None:
    """Note what would run, as the operator does within seconds, if the run waits."""
    async with playing.run_writer(dsn) as runs:
        waiting = await runs.find(run)
        assert waiting is not None
        workflow = RemediationWorkflow.model_validate(waiting.document)
        plan = plan_of(
            waiting,
            workflow=workflow,
            owner=None,
            default_image="",
            default_user=65534,
            argo_strict=False,
            seconds=waiting.timeout_seconds,
        )
        content = content_of(waiting, workflow=workflow, plan=plan, manifest=engine_of(workflow).manifest(plan))
        await runs.begin(run, content=content)
