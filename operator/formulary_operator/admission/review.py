"""What the API server asks before it stores an object, and the answers: AdmissionReview of admission.k8s.io/v1.

It asks at secret paths: that it knows them proves that it is the API server. Each webhook of the configuration has its
own, which follows from the token; it says nothing about the token or the other paths. All have `failurePolicy: Ignore`:
under `Fail` the API server shows the address to each client whose call fails.
"""

import hmac
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from formulary_catalog.errors import FormularyError, InvalidInput
from formulary_operator.api.names import APPROVALS, CONTRACTS, INVOCATIONS, WORKFLOWS, Json, Resource

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

_JUDGED = ("CREATE", "UPDATE")
_RESOURCES = {(resource.group, resource.kind): resource for resource in (WORKFLOWS, INVOCATIONS, APPROVALS, CONTRACTS)}
_INVALID = 422
"""Never 409, also for a version that is taken: clients would take that for a lost race and send the same again."""
PREFIX = "/validate"

ASKED: dict[str, tuple[Resource, ...]] = {
    "workflows.formulary.dev": (WORKFLOWS,),
    "governance.formulary.dev": (CONTRACTS, INVOCATIONS, APPROVALS),
}
"""What each webhook of the chart's configuration asks about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """An object whose spec is new, and the user who sends it, `user` as `userInfo` has it.

    Its `document` has a name and a namespace.
    """

    resource: Resource
    operation: str
    document: Mapping[str, Any]
    username: str
    user: Mapping[str, Any]
    dry_run: bool

    @property
    def is_update(self) -> bool:
        return self.operation == "UPDATE"

    @property
    def spec(self) -> Any:
        return self.document.get("spec")

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.document["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """The uid that the object has, or will have: the API server has chosen it before it asks.

        Raises:
            InvalidInput: there is none.
        """
        return _text(self.document["metadata"], "uid")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionQuestion:
    """One request of a review. `submission` is what would be stored if that is ours to judge, else None."""

    uid: str
    submission: Submission | None


class Denied(FormularyError):
    """The object must not be stored. `reason` is the word for programs, `code` an HTTP status."""

    def __init__(self, message: str, *, reason: str, code: int = _INVALID) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code


class NotRecorded(Denied):
    """Nobody would know who created the object. Trying again helps."""

    def __init__(self) -> None:
        super().__init__(
            "who creates this cannot be recorded now, because the database does not answer; try again in a few seconds",
            reason="NotRecorded",
            code=503,
        )


def question(review: object) -> AdmissionQuestion:
    """Read an AdmissionReview.

    Raises:
        InvalidInput: it is none.
    """
    content = _mapping(review, field="AdmissionReview")
    if (content.get("apiVersion"), content.get("kind")) != (API_VERSION, KIND):
        raise InvalidInput(f"the body is no {KIND} of {API_VERSION}; send one", field="apiVersion")
    request = _mapping(content.get("request"), field="request")
    uid, operation = _text(request, "uid"), _text(request, "operation")
    return AdmissionQuestion(uid=uid, submission=_submission(request, operation=operation))


def require_unchanged(submission: Submission) -> None:
    """Of some kinds the spec is a record, which no update may change.

    Raises:
        Denied: this one would.
    """
    if submission.is_update:
        raise Denied(
            f"spec of a {submission.resource.kind} cannot be changed; leave it as it is, or delete the object and "
            "create another",
            reason="SpecImmutable",
        )


def require_own_name(submission: Submission, *, operator_user: str) -> None:
    """Nobody but the operator asks for a run in the name of somebody else.

    Raises:
        Denied: somebody does.
    """
    spec = submission.spec
    named = spec.get("requester") if isinstance(spec, Mapping) else None
    if named and named != submission.username and submission.username != operator_user:
        raise Denied(
            f"spec.requester: must be absent or your own name, {submission.username!r} (got {reprlib.repr(named)}); "
            "leave it out",
            reason="RequesterForged",
            code=403,
        )


def allowed(uid: str, *, warnings: Sequence[str] = ()) -> Json:
    """The answer that lets the object pass; kubectl shows the warnings."""
    return _answer({"uid": uid, "allowed": True} | ({"warnings": list(warnings)} if warnings else {}))


def denied(uid: str, denial: Denied) -> Json:
    """The answer that keeps the object out, in the words that its condition would have."""
    status = {"code": denial.code, "reason": denial.reason, "message": str(denial)}
    return _answer({"uid": uid, "allowed": False, "status": status})


def _answer(response: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _submission(request: Mapping[str, Any], *, operation: str) -> Submission | None:
    """What is new in the spec; None for other kinds, subresources, deletions, and where the spec stays."""
    kind = _mapping(request.get("kind"), field="request.kind")
    resource = _RESOURCES.get((str(kind.get("group")), str(kind.get("kind"))))
    if resource is None or operation not in _JUDGED or request.get("subResource"):
        return None
    document = _mapping(request.get("object"), field="request.object")
    metadata = _mapping(document.get("metadata"), field="request.object.metadata")
    before = request.get("oldObject")
    unchanged = isinstance(before, Mapping) and before.get("spec") == document.get("spec")
    if unchanged or metadata.get("deletionTimestamp"):
        return None
    named = {"name": _text(metadata, "name"), "namespace": metadata.get("namespace") or _text(request, "namespace")}
    user = _mapping(request.get("userInfo"), field="request.userInfo")
    return Submission(
        resource=resource,
        operation=operation,
        document={**document, "metadata": {**metadata, **named}},
        username=_text(user, "username"),
        user=user,
        dry_run=request.get("dryRun") is True,
    )


def _mapping(value: object, *, field: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{field} is no object; send a {KIND} of {API_VERSION}", field=field)
    return value


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{key} is missing or no text; send a {KIND} of {API_VERSION}", field=key)
    return value


def path_of(webhook: str, *, token: str) -> str:
    """The path of one webhook of the configuration."""
    return f"{PREFIX}/{_secret(webhook, token=token)}"


def asked_at(secret: str, *, token: str) -> tuple[Resource, ...]:
    """What may be asked about at the path that ends so; nothing at a wrong one."""
    for webhook, resources in ASKED.items():
        if hmac.compare_digest(_secret(webhook, token=token).encode(), secret.encode()):
            return resources
    return ()


def _secret(webhook: str, *, token: str) -> str:
    return hmac.digest(token.encode(), webhook.encode(), "sha256").hex()
