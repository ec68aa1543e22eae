"""Fields of a workflow's spec in an annotation, for clusters whose schema drops them (upstream's CRD does)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from formulary_catalog.domain.workflows.labels import DIMENSIONS
from formulary_catalog.errors import InvalidManifest

SPEC_ANNOTATION = "formulary.dev/spec"
"""Holds a JSON object with some of `ANNOTATED`, and `labels` with some of `ANNOTATED_LABELS`."""
SUSPEND_ANNOTATION = "formulary.dev/suspend"
"""`"true"` suspends the workflow, as `spec.suspend` does. So does anything else but `"false"`: who says it means it."""
ANNOTATED = (
    "title",
    "keywords",
    "steps",
    "prerequisites",
    "rollbackSteps",
    "estimatedDuration",
    "riskLevel",
    "related",
    "verification",
)
"""What may be said there: our own fields and those of upstream, except `suspend`, which has its own annotation."""
_LABELS_OF_UPSTREAM = frozenset({"severity", "component", "environment", "priority", "cluster"})
ANNOTATED_LABELS = tuple(to_camel(name) for name in DIMENSIONS if name not in _LABELS_OF_UPSTREAM)
"""Labels that may be in `labels` there. Without them a workflow would be generic, and offered for anything."""
_LABELS = "labels"
_FIELD = f"metadata.annotations.{SPEC_ANNOTATION}"


def annotation_of(document: Mapping[str, Any]) -> object:
    """The annotation, whatever it holds; None if there is none."""
    return _annotations(document).get(SPEC_ANNOTATION)


def suspended_by_annotation(document: Mapping[str, Any]) -> bool:
    """Whether the annotation suspends the workflow, whatever its spec says."""
    return str(_annotations(document).get(SUSPEND_ANNOTATION, "false")).strip().lower() != "false"


def annotated(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with all that upstream's schema drops in annotations: the reverse of `with_annotated_spec`."""
    spec = dict(document["spec"])
    labels = dict(spec.get(_LABELS, {}))
    moved: dict[str, Any] = {name: spec.pop(name) for name in ANNOTATED if name in spec}
    if of_labels := {name: labels.pop(name) for name in ANNOTATED_LABELS if name in labels}:
        moved[_LABELS] = of_labels
    added = {SPEC_ANNOTATION: json.dumps(moved, ensure_ascii=False)} if moved else {}
    if spec.pop("suspend", False):
        added[SUSPEND_ANNOTATION] = "true"
    metadata = {**document["metadata"], "annotations": {**_annotations(document), **added}}
    return {**document, "metadata": metadata, "spec": {**spec, _LABELS: labels}}


def with_annotated_spec(document: Mapping[str, Any], *, source: str) -> Mapping[str, Any]:
    """The document with the annotated fields in its spec, where the rules for these fields hold, and no annotation.

    Raises:
        InvalidManifest: the annotation is no JSON object of such fields, or contradicts the spec.
    """
    text, spec = annotation_of(document), document.get("spec")
    if isinstance(spec, Mapping) and suspended_by_annotation(document):
        spec = {**spec, "suspend": True}
        document = _without_annotation(document, SUSPEND_ANNOTATION, spec=spec)
    if text is None or not isinstance(spec, Mapping):
        return document
    annotated = _parsed(text, source=source)
    labels = annotated.pop(_LABELS, {})
    if not isinstance(labels, Mapping):
        raise _invalid(f'{_LABELS} is no object; write one, such as {{"signalType": ["OOMKilled"]}}', source=source)
    merged = _with(annotated, to=spec, allowed=(*ANNOTATED, _LABELS), path="", source=source)
    declared = spec.get(_LABELS, {})
    if labels and isinstance(declared, Mapping):  # the model refuses anything else
        path = f"{_LABELS}."
        merged[_LABELS] = _with(labels, to=declared, allowed=ANNOTATED_LABELS, path=path, source=source)
    return _without_annotation(document, SPEC_ANNOTATION, spec=merged)


def _annotations(document: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return annotations if isinstance(annotations, Mapping) else {}


def _without_annotation(document: Mapping[str, Any], name: str, *, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    others = {key: value for key, value in _annotations(document).items() if key != name}
    return {**document, "metadata": {**document["metadata"], "annotations": others}, "spec": spec}


def _with(
    annotated: Mapping[str, Any], *, to: Mapping[str, Any], allowed: Sequence[str], path: str, source: str
) -> dict[str, Any]:
    """The fields with those of the annotation."""
    for name, value in annotated.items():
        if name not in allowed:
            raise _invalid(f"{path}{name} may not be set here; use {', '.join(allowed)}", source=source)
        if to.get(name, value) != value:
            raise _invalid(f"{path}{name} differs from spec.{path}{name}; leave out one of them", source=source)
    return {**to, **annotated}


def _parsed(text: object, *, source: str) -> dict[str, Any]:
    try:
        fields = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise _invalid('is not a JSON object; write one, such as \'{"riskLevel": "high"}\'', source=source)
    return fields


def _invalid(problem: str, *, source: str) -> InvalidManifest:
    return InvalidManifest(f"{source}: {_FIELD}: {problem}", source=source, field=_FIELD)
