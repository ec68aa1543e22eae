"""An alert by its id or in the address, its target alone, and an AIAnalysis with the same labels: one answer.

The oracle is the AIAnalysis, which says itself what the labels of the target come to.
"""

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from formulary_catalog.domain.incidents import AIAnalysis, request_context
from formulary_catalog.loading.documents import ManifestDocument
from formulary_catalog.loading.targets import ManifestTargets
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from support.alerts import alert, body
from support.databases import migrated_database
from support.examples import few_and_many
from support.manifest import analysis, text
from support.runnable import EVERYWHERE, runnable
from support.services import open_parts
from support.serving import load, serving
from support.wire import Wire

SEARCH, ALERTS = "search_workflow_catalog", "/api/v1/incidents/formulary/alerts"
PREFIX = "constraint.formulary.dev/"
KINDS = {"Deployment": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}
"""Kinds of targets with the label by which an alert names one."""
DECLARED: list[dict[str, str]] = [
    {},
    {"restarts": "no"},
    {"restarts": "yes"},
    {"restarts": "no", "data-loss": "no"},
    {"team": "web"},
    {"team": "data", "restarts": "no"},
]
DETECTED: list[dict[str, str]] = [{}, {"gitOpsManaged": "false"}, {"stateful": "false"}, {"stateful": "true"}, {}]
SOURCE = {
    "apiVersion": "formulary.dev/v1alpha1",
    "kind": "IncidentSource",
    "metadata": {"name": "alerts", "namespace": "formulary"},
    "spec": {"type": "alertmanager", "namespaces": ["*"]},
}


@dataclass(frozen=True)
class Owned:
    """What the owners of a namespace and of a workload in it wrote, and what fired."""

    kind: str
    environment: str
    priority: str
    namespace: dict[str, str]
    workload: dict[str, str]
    by_argo: bool
    signal: str
    severity: str
    query: str

    def objects(self, namespace: str) -> list[dict[str, Any]]:
        """The Namespace and the workload `web`."""
        said = {"environment": self.environment, **({"priority": self.priority} if self.priority else {})}
        marks = {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:x/web"} if self.by_argo else {}
        metadata = {"name": "web", "namespace": namespace, "labels": _labels(self.workload), "annotations": marks}
        return [
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": namespace, "labels": said | _labels(self.namespace)},
            },
            {"apiVersion": "apps/v1", "kind": self.kind, "metadata": metadata},
        ]

    def analysis(self, namespace: str) -> dict[str, Any]:
        """An AIAnalysis that demands what these labels come to."""
        narrowed = {key for key, value in self.namespace.items() if (key, value) == ("restarts", "yes")}
        custom = {**self.workload, **{key: v for key, v in self.namespace.items() if key not in narrowed}}
        custom |= {key: self.workload.get(key, "yes") for key in narrowed}
        document = analysis(
            "web",
            remediation_id=f"rr-{namespace}",
            environment=self.environment,
            labels={key: [value] for key, value in custom.items()},
        )
        document["metadata"]["namespace"] = namespace
        signal = document["spec"]["analysisRequest"]["signalContext"]
        signal |= {"businessPriority": self.priority, "signalName": self.signal, "severity": self.severity}
        signal["targetResource"] = {
            "apiVersion": "apps/v1",
            "kind": self.kind,
            "name": "web",
            "namespace": namespace,
        }
        seen = {"gitOpsManaged": self.by_argo, "stateful": self.kind == "StatefulSet"}
        signal["enrichmentResults"]["kubernetesContext"]["detectedLabels"] = seen
        return document


def _labels(custom: dict[str, str]) -> dict[str, str]:
    return {key if key == "team" else f"{PREFIX}{key}": value for key, value in custom.items()}


some_custom = st.fixed_dictionaries(
    {},
    optional={
        "restarts": st.sampled_from(["no", "yes"]),
        "data-loss": st.just("no"),
        "team": st.sampled_from(["web", "data"]),
        "rack": st.just("r1"),
    },
)
owned = st.builds(
    Owned,
    kind=st.sampled_from([*KINDS]),
    environment=st.sampled_from(["production", "staging", "elsewhere"]),
    priority=st.sampled_from(["", "P0", "P1"]),
    namespace=some_custom,
    workload=some_custom,
    by_argo=st.booleans(),
    signal=st.sampled_from(["KubePodCrashLooping", "OOMKilled", "Anything"]),
    severity=st.sampled_from(["critical", "warning"]),
    query=st.sampled_from(["oom restart raise", "KubePodCrashLooping critical", "nothing that fits"]),
)


class World:
    """A server that reads targets, takes alerts and knows AIAnalyses."""

    def __init__(self, wire: Wire, *, targets: ManifestTargets, contexts: ContextWriter) -> None:
        self._wire = wire
        self._targets = targets
        self._contexts = contexts
        self._numbers = itertools.count()

    async def answers(self, what: Owned) -> dict[str, dict[str, Any]]:
        """What an agent is answered that names the same in each way."""
        namespace = f"n{next(self._numbers)}"  # what is read of a target is kept for some seconds
        self._targets.replace([ManifestDocument(content=each, source="drawn") for each in what.objects(namespace)])
        described = AIAnalysis.model_validate(what.analysis(namespace))
        await self._contexts.save(request_context(described, namespace=namespace))
        labels = {"alertname": what.signal, "severity": what.severity, "namespace": namespace}
        fired = alert(f"f-{namespace}", **{**labels, "deployment": "", KINDS[what.kind]: "web"})
        stored = await self._wire.post(ALERTS, body(fired))
        assert stored.status == 200, stored.body
        target = {"target_namespace": namespace, "target_kind": what.kind, "target_name": "web"}
        asked, incident = {"query": what.query, "top_k": 50}, f"al-f-{namespace}"
        replies = {
            "analysis": await self._wire.tool(SEARCH, asked, headers={"X-AIAnalysis": f"{namespace}/web"}),
            "its id": await self._wire.tool(SEARCH, asked, headers={"X-Remediation-Id": f"rr-{namespace}"}),
            "alert": await self._wire.tool(SEARCH, asked, headers={"X-Remediation-Id": incident}),
            "address": await self._wire.tool(SEARCH, asked, path=f"/mcp?incident={incident}"),
            "target": await self._wire.tool(SEARCH, asked | target),
        }
        return {way: reply.json()["result"]["structuredContent"] for way, reply in replies.items()}


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    catalog = [
        runnable(
            f"oom-{number}",
            what=f"Restarts or raises {number}.",
            labels={**EVERYWHERE, "environment": environment, "priority": ["*", "P0", "P1"][number % 3]},
            customLabels=custom,
            detectedLabels=DETECTED[number % len(DETECTED)],
        )
        for number, (environment, custom) in enumerate(itertools.product(["production", "staging", "*"], DECLARED))
    ]
    directory: Path = tmp_path_factory.mktemp("manifests")
    (directory / "all.yaml").write_text(text(*catalog, SOURCE), encoding="utf-8")
    targets = ManifestTargets(default_namespace="formulary")
    async with migrated_database(postgres) as dsn:
        await load([directory], dsn=dsn, embedder=None, targets=targets)
        async with (
            Database.opened(dsn, role=Role.WRITER, deadline=30) as writing,
            open_parts(dsn, policy=ContextPolicy.REQUIRED, targets=targets) as parts,
            serving(parts, request_context="required") as url,
            Wire(url) as wire,
        ):
            yield World(wire, targets=targets, contexts=ContextWriter(writing))


async def _holds(world: World, what: Owned) -> None:
    answers = await world.answers(what)
    hits = {way: (each["workflows"], each["total_results"]) for way, each in answers.items()}
    assert all(each == hits["analysis"] for each in hits.values())


test_the_same_is_offered_however_an_incident_is_named, test_the_same_is_offered_over_many_alerts = few_and_many(
    _holds, few=10, many=200, what=owned
)


async def test_what_is_offered_is_not_always_the_same(world: World) -> None:
    """Else the property would hold of a server that offers everything, or nothing."""
    production = Owned(
        kind="Deployment",
        environment="production",
        priority="",
        namespace={},
        workload={},
        by_argo=False,
        signal="KubePodCrashLooping",
        severity="warning",
        query="oom restart raise",
    )
    offered = [
        {hit["workflow_id"] for hit in (await world.answers(each))["target"]["workflows"]}
        for each in (
            production,
            replace(production, namespace={"restarts": "no"}),
            replace(production, environment="staging", namespace={"team": "web"}),
        )
    ]
    assert all(offered)
    assert len({frozenset(each) for each in offered}) == 3
