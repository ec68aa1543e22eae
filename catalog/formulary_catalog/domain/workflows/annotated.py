"""Fields of a workflow's spec in an annotation, for clusters whose schema drops them (upstream's CRD does)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from formulary_catalog.domain.workflows.labels import DIMENSIONS
from formulary_catalog.errors import InvalidManifest

SPEC_ANNOTATION = "formulary.dev/spec"
"""Holds a JSON object with some of `ANNOTATED`, and `labels` with some of `ANNOTATED_LABELS`."""
ANNOTATED = (
    "title",
    "keywords",
    "steps",
    "prerequisites",
    "rollbackSteps",
    "estimatedDuration",
    "riskLevel",
    "related",
)
"""What may be said there: our own fields and those of upstream, except `suspend`, which a schema must not hide."""
_LABELS_OF_UPSTREAM = frozenset({"severity", "component", "environment", "priority", "cluster"})
ANNOTATED_LABELS = tuple(to_camel(name) for name in DIMENSIONS if name not in _LABELS_OF_UPSTREAM)
"""Labels that may be in `labels` there. Without them a workflow would be generic, and offered for anything."""
_LABELS = "labels"
_FIELD = f"metadata.annotations.{SPEC_ANNOTATION}"


def annotation_of(document: Mapping[str, Any]) -> object:
    """The annotation, whatever it holds; None if there is none."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return annotations.get(SPEC_ANNOTATION) if isinstance(annotations, Mapping) else None


def with_annotated_spec(document: Mapping[str, Any], *, source: str) -> Mapping[str, Any]:
    """The document with the annotated fields in its spec, where the rules for these fields hold, and no annotation.

    Raises:
        InvalidManifest: the annotation is no JSON object of such fields, or contradicts the spec.
    """
    text, spec = annotation_of(document), document.get("spec")
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
    metadata = document["metadata"]
    others = {key: value for key, value in metadata["annotations"].items() if key != SPEC_ANNOTATION}
    return {**document, "metadata": {**metadata, "annotations": others}, "spec": merged}


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
