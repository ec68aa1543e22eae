"""What the documents of one load mean together: which version is served, what is history, what is refused.

`loading.loader` and `formulary validate` call it with all documents, since duplicates and versions show only among
them. One contract that somebody gives, to be judged by or to be tried, is read here, too: for REST, the console and the
`governance` commands, so that all name the same line and rule. Nothing of it is put in force. No I/O.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from formulary_catalog.domain import incidents
from formulary_catalog.domain.alerts import source as alert_source
from formulary_catalog.domain.entry import (
    CatalogEntry,
    ContractEntry,
    SourceEntry,
    catalog_entry,
    contract_entry,
    incident_context,
    require_constraints,
    require_distinct_parameters,
    require_visible,
    source_entry,
)
from formulary_catalog.domain.governance import contract
from formulary_catalog.domain.governance.contract import KIND
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.workflows import manifest
from formulary_catalog.domain.workflows.identity import precedence
from formulary_catalog.domain.workflows.problems import nearest_name
from formulary_catalog.errors import InvalidInput, InvalidManifest, VersionImmutable
from formulary_catalog.loading.documents import ManifestDocument, Rejection, documents_in, line_in

_KINDS = {"kubernaut.ai": (manifest.KIND, incidents.KIND), "formulary.dev": (contract.KIND, alert_source.KIND)}
"""What is loaded, by API group."""
_LOADED = [kind for kinds in _KINDS.values() for kind in kinds]
_NOT_LOADED = ("WorkflowInvocation", "InvocationApproval")
"""The other kinds of formulary.dev (DESIGN section 2), which the operator reads."""
_MAX_COMPARED = 60
MAX_CHARACTERS = 60_000
"""Of a text that is sent to a server, whose requests have at most 64 KiB."""


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
class FoundSource:
    """A source of alerts and where it was found."""

    source: str
    entry: SourceEntry


_Found = TypeVar("_Found", FoundContext, FoundContract, FoundSource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something worth knowing about a document that is no error; `message` begins with the source."""

    source: str
    message: str


@dataclass(slots=True)
class Manifests:
    """The sorted-out documents. `served` has one entry for each workflow, `history` its lower versions.

    `ignored` has the documents of other kinds.
    """

    served: list[CatalogEntry] = field(default_factory=list)
    history: list[CatalogEntry] = field(default_factory=list)
    contexts: list[FoundContext] = field(default_factory=list)
    contracts: list[FoundContract] = field(default_factory=list)
    sources: list[FoundSource] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    ignored: list[ManifestDocument] = field(default_factory=list)


def sort_out(documents: Iterable[ManifestDocument | Rejection], *, default_namespace: str) -> Manifests:
    """Validate documents, given in the order of their files, and settle duplicates and versions (DESIGN section 3).

    The first of two documents with the same name and version counts; the highest semantic version is served.
    """
    manifests = Manifests()
    entries: dict[tuple[str, str], dict[str, CatalogEntry]] = {}
    contexts: dict[tuple[str, str], FoundContext] = {}
    contracts: dict[tuple[str, str], FoundContract] = {}
    sources: dict[tuple[str, str], FoundSource] = {}
    for document in documents:
        if isinstance(document, Rejection):
            manifests.rejections.append(document)
            continue
        source = document.source
        try:
            kind = _kind(document)
            if kind == manifest.KIND:
                _add_workflow(document, entries=entries, manifests=manifests, default_namespace=default_namespace)
            elif kind == incidents.KIND:
                context = incident_context(document.content, source=source, default_namespace=default_namespace)
                found = FoundContext(source=source, context=context)
                _add(found, kind=kind, key=(context.namespace, context.name), known=contexts, manifests=manifests)
            elif kind == contract.KIND:
                entry = contract_entry(document.content, source=source, default_namespace=default_namespace)
                given = FoundContract(source=source, contract=entry)
                _add(given, kind=kind, key=(entry.namespace, entry.name), known=contracts, manifests=manifests)
            elif kind == alert_source.KIND:
                sender = source_entry(document.content, source=source, default_namespace=default_namespace)
                sends = FoundSource(source=source, entry=sender)
                _add(sends, kind=kind, key=(sender.namespace, sender.name), known=sources, manifests=manifests)
            else:
                manifests.ignored.append(document)
        except InvalidManifest as error:
            manifests.rejections.append(rejection_of(error))
    manifests.contexts = list(contexts.values())
    manifests.contracts = list(contracts.values())
    manifests.sources = list(sources.values())
    for versions in entries.values():
        _choose(versions, manifests=manifests)
    return manifests


def rejection_of(error: InvalidManifest) -> Rejection:
    """The error as a line of a report."""
    return Rejection(source=error.source, field=error.field, message=str(error), problems=error.problems)


def _kind(document: ManifestDocument) -> str:
    """The kind, if it is one of ours; empty for what belongs to somebody else.

    Raises:
        InvalidManifest: it is missing, or it or its API group is one of ours misspelt.
    """
    content: dict[str, Any] = document.content
    if "apiVersion" in content and "kind" not in content:
        raise _misnamed(document, "kind", "is required; add it")
    api_version = content.get("apiVersion")
    kind = str(content.get("kind", ""))
    if not isinstance(api_version, str):
        _require_spelt(document, kind, kinds=_LOADED)
        return kind
    group = api_version.partition("/")[0]
    if group not in _KINDS:
        _require_foreign(document, group, kind=kind)
        return ""
    if kind not in _KINDS[group]:
        _require_spelt(document, kind, kinds=_KINDS[group])
        if group == "formulary.dev" and kind not in _NOT_LOADED:
            known = ", ".join((*_KINDS[group], *_NOT_LOADED))
            raise _misnamed(document, "kind", f"{_cut(kind)!r} is no kind of {group}; its kinds are {known}")
        return ""
    return kind


def _require_spelt(document: ManifestDocument, kind: str, *, kinds: Sequence[str]) -> None:
    """A misspelt kind would be left out in silence."""
    if (meant := nearest_name(kind, kinds)) not in ("", kind):
        raise _misnamed(document, "kind", f"{_cut(kind)!r} is unknown; did you mean {meant}?")


def _require_foreign(document: ManifestDocument, group: str, *, kind: str) -> None:
    """One of our kinds in another group is somebody else's, unless the group is spelt almost as ours."""
    if (near := nearest_name(group, _KINDS)) and kind in _KINDS[near]:
        raise _misnamed(document, "apiVersion", f"{_cut(group)!r} is unknown; did you mean {near}?")


def _cut(name: str) -> str:
    return name[:_MAX_COMPARED]


def _misnamed(document: ManifestDocument, field: str, problem: str) -> InvalidManifest:
    return InvalidManifest(f"{document.source}: {field}: {problem}", source=document.source, field=field)


def _add_workflow(
    document: ManifestDocument,
    *,
    entries: dict[tuple[str, str], dict[str, CatalogEntry]],
    manifests: Manifests,
    default_namespace: str,
) -> None:
    entry = catalog_entry(document.content, source=document.source, default_namespace=default_namespace)
    require_visible(entry)
    require_constraints(entry)
    require_distinct_parameters(entry)
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


def _add(
    found: _Found, *, kind: str, key: tuple[str, str], known: dict[tuple[str, str], _Found], manifests: Manifests
) -> None:
    """Add what is known by its namespace and name alone."""
    first = known.setdefault(key, found)
    if first is found:
        return
    named = f"{kind} {'/'.join(key)}"
    if replace(first, source=found.source) != found:
        raise InvalidManifest(
            f"{found.source}: metadata.name: {named} is also in {first.source} with other content, which counts; "
            "remove one",
            source=found.source,
            field="metadata.name",
        )
    message = f"{found.source}: {named} is also in {first.source} with the same content; remove one"
    manifests.notes.append(Note(source=found.source, message=message))


def _choose(versions: dict[str, CatalogEntry], *, manifests: Manifests) -> None:
    *lower, highest = sorted(versions.values(), key=lambda entry: precedence(entry.version))
    manifests.served.append(highest)
    manifests.history += lower
    for entry in lower:
        named = f"{entry.source}: {entry.namespace}/{entry.name} {entry.version}"
        message = f"{named} is kept as history; {highest.version} ({highest.source}) is served"
        manifests.notes.append(Note(source=entry.source, message=message))


def given_contract(text: str, *, name: str, default_namespace: str) -> ContractEntry:
    """The contract; `name` is how messages call the text.

    Raises:
        InvalidInput: it is broken, or holds none or several; the message names line, field and rule.
    """
    manifests = sort_out(documents_in(text, name=name), default_namespace=default_namespace)
    if manifests.rejections:
        raise InvalidInput(_placed(manifests.rejections[0], text=text, name=name), field="manifest")
    if len(manifests.contracts) != 1:
        found = f"{len(manifests.contracts)} of them" if manifests.contracts else "none"
        raise InvalidInput(
            f"{name}: must hold one {KIND} of formulary.dev/v1alpha1, and holds {found}; give the manifest of one",
            field="manifest",
        )
    return manifests.contracts[0].contract


def _placed(rejection: Rejection, *, text: str, name: str) -> str:
    """The message, with the line where the field is; what is no YAML says its line, one of several its number."""
    if rejection.source != name or not rejection.field:
        return rejection.message
    return f"{name}: line {line_in(text, rejection.field)}: {rejection.message.removeprefix(f'{name}: ')}"
