"""The adversarial set: incidents whose best-sounding workflow must not be returned, as data and as catalogs of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext, constraints_of
from formulary_catalog.domain.search.query import parse_query
from formulary_catalog.domain.workflows.labels import normalize_detected
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.filling import entry

DIRECTORY = Path(__file__).parents[1] / "integration" / "search" / "adversarial"
PINNABLE = ("superseded",)
"""Withdrawn in ways that keep the version readable for whoever names exactly that version (DESIGN section 3)."""
_ANYWHERE = dict.fromkeys(("signalType", "severity", "environment", "component", "priority", "cluster"), "*")
_INNOCUOUS = {
    "description": {"what": "Collects what a person wants to look at.", "whenToUse": "A person takes it from here."}
}


@dataclass(frozen=True)
class Case:
    """One incident, what is asked about it, the workflow that must not be returned and one that may.

    `data` is an entry of a file below `integration/search/adversarial`:
    `name`, `when`, `what`, `labels`, `spec`: of the forbidden workflow; a label that it does not name is `*`.
    `next`: the spec of its next version, which supersedes it. `withdrawn`: `suspended later` or `deleted`.
    `elsewhere`: it belongs to a namespace that the caller may not see.
    `allowed`: what the allowed workflow says other than that it is for everything.
    `query`, `call`, `exclude`: what the caller asks. `incident`: what its AIAnalysis says.
    """

    kind: str
    number: int
    data: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.kind}/{self.data['name']}"

    @property
    def query(self) -> str:
        """What is asked, and then the forbidden workflow's own words."""
        return " ".join(self.data[part] for part in ("query", "when", "what"))

    @property
    def call(self) -> dict[str, tuple[str, ...]]:
        """The labels that the caller gives, by dimension."""
        return {dimension: (value,) for dimension, value in self.data.get("call", {}).items()}

    @property
    def exclude(self) -> tuple[str, ...]:
        return tuple(self.data.get("exclude", ()))

    @property
    def namespace(self) -> str:
        """That of the incident and of the allowed workflow."""
        return f"{self.kind}-{self.number}"

    @property
    def remediation_id(self) -> str:
        return f"rr-{self.namespace}"

    @property
    def elsewhere(self) -> bool:
        return bool(self.data.get("elsewhere", False))

    @property
    def withdrawn(self) -> str:
        """How the forbidden workflow ceased to be served; empty where it is served to others."""
        if "next" in self.data:
            return "superseded"
        return "suspended" if self.forbidden.workflow.spec.suspend else str(self.data.get("withdrawn", ""))

    @cached_property
    def incident(self) -> RequestContext:
        """What the server knows of the incident."""
        said = self.data.get("incident", {})
        return RequestContext(
            namespace=self.namespace,
            name="incident",
            remediation_id=self.remediation_id,
            environment=said.get("environment", ""),
            priority=said.get("priority", ""),
            cluster=said.get("cluster", ""),
            custom_labels={key: tuple(values) for key, values in said.get("customLabels", {}).items()},
            strict_keys=frozenset(said.get("strict", ())),
            detected_labels={key: normalize_detected(value) for key, value in said.get("detected", {}).items()},
        )

    @cached_property
    def forbidden(self) -> CatalogEntry:
        """The best-sounding workflow."""
        namespace = f"{self.namespace}-elsewhere" if self.elsewhere else self.namespace
        return self._sounding(labels=self.data.get("labels", {}), spec=self.data.get("spec", {}), namespace=namespace)

    @cached_property
    def conforming(self) -> CatalogEntry:
        """A workflow of the same words to which nothing could be objected, made for what the query mentions."""
        incident = self.incident
        mentioned = parse_query(self.query).inferred(signal_declared=False)
        wanted = {to_camel(name): value for name, value in {**mentioned, **self.data.get("call", {})}.items()}
        said = {"environment": incident.environment, "priority": incident.priority, "cluster": incident.cluster}
        custom = {key: list(values) for key, values in incident.custom_labels.items()}
        return self._sounding(
            labels=wanted | {label: value for label, value in said.items() if value},
            spec={"customLabels": custom},
            namespace=self.namespace,
        )

    @cached_property
    def successor(self) -> CatalogEntry:
        """The version that superseded the forbidden one."""
        changes = dict(self.data["next"])
        labels = changes.pop("labels", {})
        description = {"description": _INNOCUOUS["description"]}
        return self._workflow(
            self.data["name"],
            labels=labels,
            spec={"version": "2.0.0", **description, **changes},
            namespace=self.namespace,
        )

    @cached_property
    def allowed(self) -> CatalogEntry:
        """The innocuous workflow."""
        changes = dict(self.data.get("allowed", {}))
        name = changes.pop("name", "take-notes")
        return self._workflow(name, labels={}, spec={**_INNOCUOUS, **changes}, namespace=self.namespace)

    @property
    def held_everywhere(self) -> bool:
        """Whether the forbidden workflow is out of reach whatever the call itself demands."""
        constraints = constraints_of(self.incident, strict_keys=frozenset())
        return bool(self.withdrawn or self.elsewhere) or not allowed(self.forbidden.labels, constraints)

    def names(self) -> list[str]:
        """All ways to call the forbidden workflow, without those by which history may be read."""
        forbidden = self.forbidden
        own = [forbidden.name, f"{forbidden.namespace}/{forbidden.name}"]
        pinned = [*(f"{name}@{forbidden.version}" for name in own), forbidden.version_id]
        return own if self.withdrawn in PINNABLE else [*own, *pinned]

    def served(self) -> list[CatalogEntry]:
        """The workflows of this case that are served to somebody."""
        current = [self.successor] if self.withdrawn == "superseded" else [] if self.withdrawn else [self.forbidden]
        return [each for each in (*current, self.allowed) if not each.workflow.spec.suspend]

    def _sounding(self, *, labels: Mapping[str, Any], spec: Mapping[str, Any], namespace: str) -> CatalogEntry:
        words = {"description": {"what": self.data["what"], "whenToUse": self.data["when"]}}
        return self._workflow(self.data["name"], labels=labels, spec={**words, **spec}, namespace=namespace)

    def _workflow(
        self, name: str, *, labels: Mapping[str, Any], spec: Mapping[str, Any], namespace: str
    ) -> CatalogEntry:
        document = {
            "apiVersion": "kubernaut.ai/v1alpha1",
            "kind": "RemediationWorkflow",
            "metadata": {"name": name},
            "spec": {
                "version": "1.0.0",
                "actionType": "Remedy",
                "labels": {**_ANYWHERE, **labels},
                "execution": {"engine": "job"},
                **spec,
            },
        }
        return entry(document, namespace=namespace)


def cases() -> list[Case]:
    """All cases, in the order of their files."""
    return [
        Case(kind=file.stem, number=number, data=data)
        for file in sorted(DIRECTORY.glob("*.yaml"))
        for number, data in enumerate(yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader))
    ]


async def store_cases(
    cases: Sequence[Case], *, writer: CatalogWriter, contexts: ContextWriter, embedder: Embedder
) -> None:
    """Load all workflows and incidents of the cases, and withdraw what is to be withdrawn."""
    superseding = [case.successor for case in cases if case.withdrawn == "superseded"]
    first = [each for case in cases for each in (case.forbidden, case.allowed)]
    await store(first, writer=writer, embedder=embedder)
    await store(superseding, writer=writer, embedder=embedder)
    for case in cases:
        await contexts.save(case.incident)
        forbidden = case.forbidden
        if case.withdrawn == "suspended later":
            assert await writer.suspend(namespace=forbidden.namespace, name=forbidden.name)
        if case.withdrawn == "deleted":
            assert await writer.remove(namespace=forbidden.namespace, name=forbidden.name)


async def store(entries: Sequence[CatalogEntry], *, writer: CatalogWriter, embedder: Embedder) -> None:
    """Load workflows with their vectors."""
    vectors = embedder.embed_documents([each.embedding_text for each in entries])
    await store_embedded(entries, vectors=vectors, writer=writer, model_id=embedder.model_id)


async def store_embedded(
    entries: Sequence[CatalogEntry], *, vectors: Iterable[npt.NDArray[np.float32]], writer: CatalogWriter, model_id: str
) -> None:
    """Load workflows whose vectors are known."""
    hashes = [each.text_hash for each in entries]
    await writer.save_vectors(dict(zip(hashes, vectors, strict=True)), model_id=model_id)
    for each in entries:
        await writer.apply(each, model_id=model_id)


def nearby(vectors: npt.NDArray[np.float32], *, number: int) -> npt.NDArray[np.float32]:
    """That many unit vectors, each near one of these in turn: those of `copies`, without a model."""
    noise = np.random.default_rng(5).normal(scale=0.01, size=(number, vectors.shape[1]))
    near = np.resize(vectors, noise.shape) + noise
    unit: npt.NDArray[np.float32] = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
    return unit


def copies(documents: Sequence[Mapping[str, Any]], *, number: int, namespace: str) -> list[CatalogEntry]:
    """That many workflows, made of the documents in turn, with names, environments and owners of their own."""
    environments = ("production", "staging", "*", "test")
    owners: tuple[dict[str, Any], ...] = ({}, {"team": ["web", "data"]}, {"region": "eu"})
    found = []
    for position in range(number):
        document = documents[position % len(documents)]
        labels = {**document["spec"]["labels"], "environment": environments[position % len(environments)]}
        if position % 5 == 0:
            labels["cluster"] = "*"
        spec = {**document["spec"], "labels": labels, "customLabels": owners[position % len(owners)]}
        metadata = {"name": f"{document['metadata']['name']}-{position}"}
        found.append(entry({**document, "metadata": metadata, "spec": spec}, namespace=namespace))
    return found
