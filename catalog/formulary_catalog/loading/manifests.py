"""What the documents of one load mean together: which version is served, what is history, what is refused."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from formulary_catalog.domain import incidents
from formulary_catalog.domain.entry import (
    CatalogEntry,
    ContractEntry,
    catalog_entry,
    contract_entry,
    incident_context,
    require_visible,
)
from formulary_catalog.domain.governance import contract
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.workflows import manifest
from formulary_catalog.domain.workflows.identity import precedence
from formulary_catalog.errors import InvalidManifest, VersionImmutable
from formulary_catalog.loading.documents import Document, Rejection

_KINDS = {"kubernaut.ai": {manifest.KIND, incidents.KIND}, "formulary.dev": {contract.KIND}}
"""What is loaded, by API group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundContext:
    """The context of an AIAnalysis and where it was found."""

    source: str
    context: RequestContext


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundContract:
    """A contract and where it was found."""

    source: str
    contract: ContractEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something worth knowing about a document that is no error; `message` begins with the source."""

    source: str
    message: str


@dataclass(slots=True)
class Manifests:
    """The sorted-out documents. `served` has one entry for each workflow, `history` its lower versions.

    `ignored` counts documents of other kinds.
    """

    served: list[CatalogEntry] = field(default_factory=list)
    history: list[CatalogEntry] = field(default_factory=list)
    contexts: list[FoundContext] = field(default_factory=list)
    contracts: list[FoundContract] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    ignored: int = 0


def sort_out(documents: Iterable[Document | Rejection], *, default_namespace: str) -> Manifests:
    """Validate documents, given in the order of their files, and settle duplicates and versions (DESIGN section 3).

    The first of two documents with the same name and version counts; the highest semantic version is served.
    """
    manifests = Manifests()
    entries: dict[tuple[str, str], dict[str, CatalogEntry]] = {}
    contexts: dict[tuple[str, str], FoundContext] = {}
    contracts: dict[tuple[str, str], FoundContract] = {}
    for document in documents:
        if isinstance(document, Rejection):
            manifests.rejections.append(document)
            continue
        try:
            kind = _kind(document)
            if kind == manifest.KIND:
                _add_workflow(document, entries=entries, manifests=manifests, default_namespace=default_namespace)
            elif kind == incidents.KIND:
                _add_context(document, contexts=contexts, manifests=manifests, default_namespace=default_namespace)
            elif kind == contract.KIND:
                _add_contract(document, contracts=contracts, manifests=manifests, default_namespace=default_namespace)
            else:
                manifests.ignored += 1
        except InvalidManifest as error:
            manifests.rejections.append(rejection_of(error))
    manifests.contexts = list(contexts.values())
    manifests.contracts = list(contracts.values())
    for versions in entries.values():
        _choose(versions, manifests=manifests)
    return manifests


def rejection_of(error: InvalidManifest) -> Rejection:
    """The error as a line of a report."""
    return Rejection(source=error.source, field=error.field, message=str(error))


def _kind(document: Document) -> str:
    """The kind, if it is one of ours; empty for what belongs to somebody else."""
    content: dict[str, Any] = document.content
    if "apiVersion" in content and "kind" not in content:
        raise InvalidManifest(f"{document.source}: kind: is required; add it", source=document.source, field="kind")
    api_version = content.get("apiVersion")
    kind = str(content.get("kind", ""))
    if isinstance(api_version, str) and kind not in _KINDS.get(api_version.partition("/")[0], ()):
        return ""
    return kind


def _add_workflow(
    document: Document,
    *,
    entries: dict[tuple[str, str], dict[str, CatalogEntry]],
    manifests: Manifests,
    default_namespace: str,
) -> None:
    entry = catalog_entry(document.content, source=document.source, default_namespace=default_namespace)
    require_visible(entry)
    versions = entries.setdefault((entry.namespace, entry.name), {})
    first = versions.setdefault(entry.version, entry)
    if first is entry:
        return
    named = f"{entry.namespace}/{entry.name} {entry.version}"
    if (first.content_hash, first.workflow.spec.suspend) != (entry.content_hash, entry.workflow.spec.suspend):
        raise VersionImmutable(
            f"{entry.source}: spec.version: {named} is also in {first.source} with other content, which is served; "
            "raise spec.version or remove one",
            source=entry.source,
            field="spec.version",
        )
    message = f"{entry.source}: {named} is also in {first.source} with the same content; remove one"
    manifests.notes.append(Note(source=entry.source, message=message))


def _add_context(
    document: Document,
    *,
    contexts: dict[tuple[str, str], FoundContext],
    manifests: Manifests,
    default_namespace: str,
) -> None:
    source = document.source
    context = incident_context(document.content, source=source, default_namespace=default_namespace)
    found = FoundContext(source=source, context=context)
    first = contexts.setdefault((context.namespace, context.name), found)
    if first is found:
        return
    named = f"AIAnalysis {context.namespace}/{context.name}"
    if first.context != context:
        raise InvalidManifest(
            f"{source}: metadata.name: {named} is also in {first.source} with other content, which counts; remove one",
            source=source,
            field="metadata.name",
        )
    message = f"{source}: {named} is also in {first.source} with the same content; remove one"
    manifests.notes.append(Note(source=source, message=message))


def _add_contract(
    document: Document,
    *,
    contracts: dict[tuple[str, str], FoundContract],
    manifests: Manifests,
    default_namespace: str,
) -> None:
    source = document.source
    entry = contract_entry(document.content, source=source, default_namespace=default_namespace)
    found = FoundContract(source=source, contract=entry)
    first = contracts.setdefault((entry.namespace, entry.name), found)
    if first is found:
        return
    named = f"{contract.KIND} {entry.namespace}/{entry.name}"
    if first.contract != entry:
        raise InvalidManifest(
            f"{source}: metadata.name: {named} is also in {first.source} with other content, which counts; remove one",
            source=source,
            field="metadata.name",
        )
    message = f"{source}: {named} is also in {first.source} with the same content; remove one"
    manifests.notes.append(Note(source=source, message=message))


def _choose(versions: dict[str, CatalogEntry], *, manifests: Manifests) -> None:
    *lower, highest = sorted(versions.values(), key=lambda entry: precedence(entry.version))
    manifests.served.append(highest)
    manifests.history += lower
    for entry in lower:
        named = f"{entry.source}: {entry.namespace}/{entry.name} {entry.version}"
        message = f"{named} is kept as history; {highest.version} ({highest.source}) is served"
        manifests.notes.append(Note(source=entry.source, message=message))
