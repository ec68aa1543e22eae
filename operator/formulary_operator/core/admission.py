"""What the API server asks before it stores an object, and the answers: AdmissionReview of admission.k8s.io/v1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from formulary_catalog.errors import InvalidInput
from formulary_operator.api.names import WORKFLOWS
from formulary_operator.core.finding import Finding

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

_INVALID = 422
"""Never 409, also for a version that is taken: clients would take that for a lost race and send the same again."""

_JUDGED = ("CREATE", "UPDATE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request of a review. `workflow` is what would be stored if that is ours to judge, else None."""

    uid: str
    operation: str
    workflow: Mapping[str, Any] | None


def question(review: object) -> Question:
    """Read an AdmissionReview.

    Raises:
        InvalidInput: it is none.
    """
    content = _mapping(review, field="AdmissionReview")
    if (content.get("apiVersion"), content.get("kind")) != (API_VERSION, KIND):
        raise InvalidInput(f"the body is no {KIND} of {API_VERSION}; send one", field="apiVersion")
    request = _mapping(content.get("request"), field="request")
    uid, operation = _text(request, "uid"), _text(request, "operation")
    return Question(uid=uid, operation=operation, workflow=_workflow(request, operation=operation))


def allowed(uid: str, *, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """The answer that lets the object pass; kubectl shows the warnings."""
    return _answer({"uid": uid, "allowed": True} | ({"warnings": list(warnings)} if warnings else {}))


def denied(uid: str, finding: Finding) -> dict[str, Any]:
    """The answer that keeps the object out, in the words that its condition would have."""
    status = {"code": _INVALID, "reason": str(finding.reason), "message": finding.message}
    return _answer({"uid": uid, "allowed": False, "status": status})


def _answer(response: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _workflow(request: Mapping[str, Any], *, operation: str) -> Mapping[str, Any] | None:
    """The workflow whose spec is new; None for other kinds, subresources, deletions, and where the spec stays."""
    kind = _mapping(request.get("kind"), field="request.kind")
    ours = (kind.get("group"), kind.get("kind")) == (WORKFLOWS.group, WORKFLOWS.kind)
    if not ours or operation not in _JUDGED or request.get("subResource"):
        return None
    document = _mapping(request.get("object"), field="request.object")
    metadata = _mapping(document.get("metadata"), field="request.object.metadata")
    before = request.get("oldObject")
    unchanged = isinstance(before, Mapping) and before.get("spec") == document.get("spec")
    if unchanged or metadata.get("deletionTimestamp"):
        return None
    named = {"name": _text(metadata, "name"), "namespace": metadata.get("namespace") or _text(request, "namespace")}
    return {**document, "metadata": {**metadata, **named}}


def _mapping(value: object, *, field: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{field} is no object; send a {KIND} of {API_VERSION}", field=field)
    return value


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{key} is missing or no text; send a {KIND} of {API_VERSION}", field=key)
    return value
