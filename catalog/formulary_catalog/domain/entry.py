"""From a parsed manifest to what the catalog stores, or to an error that names file, field, value and rule.

The loader, the operator, the webhook and `formulary validate` call it, so that all of them agree on what is valid.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from formulary_catalog.domain.alerts.source import SourceManifest, SourceSpec
from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.governance.contract import ContractManifest, hidden_in_contract
from formulary_catalog.domain.incidents import AIAnalysis, RequestContext, request_context
from formulary_catalog.domain.knowledge.documents import DOCUMENTS_REVISION, Document, workflow_documents
from formulary_catalog.domain.text import WordPlace
from formulary_catalog.domain.visible import Hidden, first_hidden
from formulary_catalog.domain.workflows.annotated import with_annotated_spec
from formulary_catalog.domain.workflows.identity import content_hash, version_id
from formulary_catalog.domain.workflows.inputs import repeated_parameter
from formulary_catalog.domain.workflows.labels import WorkflowLabels
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow, embedding_text, labels_of, lexical_texts
from formulary_catalog.domain.workflows.problems import each_problem, nearest_name, problems
from formulary_catalog.errors import InvalidManifest

_M = TypeVar("_M", RemediationWorkflow, AIAnalysis, ContractManifest, SourceManifest)
_MAX_DEPTH = 100
_CONSTRAINING = {"customLabels": "custom_labels", "detectedLabels": "detected_labels"}
"""The fields of a spec that say where a workflow may be offered, and their other spelling."""
_NUL_IN_JSON = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """One valid workflow version, ready to be stored.

    `text_hash` names the embedded text, whatever the workflow. `index_hash` covers all that is derived for
    searching, so that rows which an earlier release derived in another way are noticed and written again. `document`
    is the content that `content_hash` covers: without `suspend`, which says how it is served.
    """

    workflow: RemediationWorkflow
    namespace: str
    content_hash: str
    source: str
    document: Mapping[str, Any] = field(repr=False)
    labels: WorkflowLabels = field(repr=False)
    embedding_text: str = field(repr=False)
    lexical_texts: Mapping[WordPlace, str] = field(repr=False)

    @property
    def name(self) -> str:
        return self.workflow.metadata.name

    @property
    def version(self) -> str:
        return self.workflow.spec.version

    @property
    def version_id(self) -> str:
        return version_id(self.content_hash)

    @property
    def text_hash(self) -> str:
        return hashlib.sha256(self.embedding_text.encode()).hexdigest()

    @property
    def documents(self) -> list[Document]:
        """Its sections, as documents of the collection `workflows`."""
        return workflow_documents(self.workflow, namespace=self.namespace, version_id=self.version_id)

    @property
    def index_hash(self) -> str:
        labels = self.labels
        derived = {
            "values": {dimension: sorted(values) for dimension, values in labels.values.items()},
            "custom": {key: sorted(values) for key, values in labels.custom.items()},
            "detected": dict(labels.detected),
            "exclusion_text": labels.exclusion_text,
            "lexical_texts": {place.name: text for place, text in self.lexical_texts.items()},
            "text_hash": self.text_hash,
            "documents": DOCUMENTS_REVISION,
        }
        # Not canonical: rows hold hashes of this spelling, and another one would index every version again.
        return hashlib.sha256(json.dumps(derived, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractEntry:
    """One valid contract, ready to be stored; `spec` as its author wrote it."""

    namespace: str
    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """One valid source of alerts, ready to be stored; `document` is its spec as its author wrote it."""

    namespace: str
    name: str
    spec: SourceSpec
    document: Mapping[str, Any] = field(repr=False)


def source_entry(document: Mapping[str, Any], *, source: str, default_namespace: str) -> SourceEntry:
    """Validate an IncidentSource document.

    Raises:
        InvalidManifest: a field breaks a rule.
    """
    _require_shallow(document, source=source)
    manifest = _validated(SourceManifest, document=document, source=source)
    _require_storable({"spec": document["spec"]}, source=source)
    return SourceEntry(
        namespace=manifest.metadata.namespace or default_namespace,
        name=manifest.metadata.name,
        spec=manifest.spec,
        document=document["spec"],
    )


def contract_entry(document: Mapping[str, Any], *, source: str, default_namespace: str) -> ContractEntry:
    """Validate a GovernanceContract document.

    Raises:
        InvalidManifest: a field breaks a rule.
    """
    _require_shallow(document, source=source)
    manifest = _validated(ContractManifest, document=document, source=source)
    _require_storable({"spec": document["spec"]}, source=source)
    if hidden := hidden_in_contract(document["spec"]):
        raise _hides(hidden, source=source)
    return ContractEntry(
        namespace=manifest.metadata.namespace or default_namespace,
        name=manifest.metadata.name,
        spec=document["spec"],
    )


def catalog_entry(document: Mapping[str, Any], *, source: str, default_namespace: str) -> CatalogEntry:
    """Validate a RemediationWorkflow document, stored or new; annotated fields count as those of its spec.

    Writers are also asked for `require_visible`, `require_constraints` and `require_distinct_parameters`, which earlier
    releases did not ask of what is stored.

    Raises:
        InvalidManifest: a field breaks a rule.
    """
    if isinstance(document, Mapping):
        document = with_annotated_spec(document, source=source)
    _require_shallow(document, source=source)
    workflow = _validated(RemediationWorkflow, document=document, source=source)
    namespace = workflow.metadata.namespace or default_namespace
    name = workflow.metadata.name
    _require_storable(document, source=source)
    content = {part: value for part, value in document["spec"].items() if part != "suspend"}
    return CatalogEntry(
        workflow=workflow,
        namespace=namespace,
        content_hash=content_hash(
            api_version=workflow.api_version, kind=workflow.kind, namespace=namespace, name=name, spec=content
        ),
        source=source,
        document={**document, "spec": content},
        labels=labels_of(workflow.spec, name=name),
        embedding_text=embedding_text(workflow.spec, name=name),
        lexical_texts=lexical_texts(workflow.spec, name=name),
    )


def require_visible(entry: CatalogEntry) -> None:
    """Refuse a new manifest whose texts hide something from who reads them.

    Raises:
        InvalidManifest: a text holds a character that cannot be seen or that turns the writing direction.
    """
    if hidden := first_hidden(entry.document["spec"], field="spec"):
        raise _hides(hidden, source=entry.source)


def require_constraints(entry: CatalogEntry) -> None:
    """Refuse a new manifest in which a field that constrains it is misspelt or misplaced, and would constrain nothing.

    Raises:
        InvalidManifest: there is such a field.
    """
    document, spec = entry.document, entry.document["spec"]
    places = {"": document, "metadata.": document.get("metadata"), "spec.": spec, "spec.labels.": spec.get("labels")}
    for place, part in places.items():
        for key in map(str, part if isinstance(part, Mapping) else ()):
            meant = nearest_name(key, _CONSTRAINING)
            if meant and not (place == "spec." and key in (meant, _CONSTRAINING[meant])):
                field = f"{place}{key if key.isprintable() else repr(key)}"
                raise InvalidManifest(
                    f"{entry.source}: {field}: is unknown and would constrain nothing; write spec.{meant}",
                    source=entry.source,
                    field=field,
                )


def require_distinct_parameters(entry: CatalogEntry) -> None:
    """Refuse a new manifest that declares a parameter twice: nobody could say which of them holds for a run.

    Raises:
        InvalidManifest: a name is there more than once.
    """
    spec = entry.workflow.spec
    for list_of, declared in (("parameters", spec.parameters), ("rollbackParameters", spec.rollback_parameters)):
        if repeated := repeated_parameter(declared):
            raise InvalidManifest(
                f"{entry.source}: spec.{list_of}: {repeated!r} is declared more than once; declare each parameter once",
                source=entry.source,
                field=f"spec.{list_of}",
            )


def incident_context(document: Mapping[str, Any], *, source: str, default_namespace: str) -> RequestContext:
    """Validate an AIAnalysis document and read the request context from it.

    Raises:
        InvalidManifest: a field breaks a rule. Values of custom labels are never shown.
    """
    _require_shallow(document, source=source)
    analysis = _validated(AIAnalysis, document=document, source=source)
    context = request_context(analysis, namespace=default_namespace)
    free_form = {"metadata.annotations": sorted(context.strict_keys), "detectedLabels": context.detected_labels}
    _require_storable(free_form, source=source)
    return context


def _validated(model: type[_M], *, document: Mapping[str, Any], source: str) -> _M:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        field, message = problems(error, model=model)
        raise InvalidManifest(
            f"{source}: {message}", source=source, field=field, problems=each_problem(error, model=model)
        ) from None


def _require_shallow(document: object, *, source: str) -> None:
    """What is nested without end would exhaust whatever walks through it later."""
    if not isinstance(document, Mapping):
        return  # which is refused in words of its own
    for part, value in document.items():
        if not _is_shallow(value):
            raise InvalidManifest(
                f"{source}: {part}: is nested deeper than {_MAX_DEPTH} levels; flatten it",
                source=source,
                field=str(part),
            )


def _is_shallow(value: object) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [inner for outer in level for inner in _members(outer)]
        if not level:
            return True
    return False


def _members(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _require_storable(document: Mapping[str, Any], *, source: str) -> None:
    """What no model describes is kept too, so it must be JSON that the database can hold."""
    for part, value in document.items():
        try:
            text = canonical_json(value)
            text.encode()
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidManifest(
                f"{source}: {part}: holds a value that JSON cannot carry; use text, numbers, booleans, lists and maps "
                "only",
                source=source,
                field=part,
            ) from error
        if _NUL_IN_JSON.search(text):
            raise InvalidManifest(f"{source}: {part}: must not contain the NUL character", source=source, field=part)


def _hides(hidden: Hidden, *, source: str) -> InvalidManifest:
    return InvalidManifest(f"{source}: {hidden.field}: {hidden.problem}", source=source, field=hidden.field)
