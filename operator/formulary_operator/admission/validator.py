"""What may be stored in the cluster, kind by kind: says at apply time what reconciling would say later, in its words.

For most of that it is a help and no gate: what passes because it was not known yet, reconciling judges. Who creates an
invocation or an approval, however, is known here alone. One that is created while the webhook is away has no record:
its creator is unproven, so such a run waits, and such an approval does not count.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import structlog

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.governance.contract import contract, hidden_in_contract
from formulary_catalog.domain.governance.halting import halt_reason
from formulary_catalog.errors import InvalidInput, InvalidManifest, Unavailable
from formulary_operator.admission.review import (
    AdmissionQuestion,
    Denied,
    NotRecorded,
    Submission,
    allowed,
    denied,
    require_own_name,
    require_unchanged,
)
from formulary_operator.api.names import APPROVALS, CONTRACTS, INVOCATIONS, WORKFLOWS, Json, Resource
from formulary_operator.governance.status import author_key
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.workflows.translate import entry_of
from formulary_operator.workflows.validation_result import ConditionReason, refused

_MAX_UID, _MAX_NAME, _MAX_USER = 64, 253, 1024
_SECONDS = 2.0
_NOT_ASKED = (
    "the catalog does not answer: spec.version was not checked, which the status will show; "
    "the author was not recorded, so runs of the workflow need an approval"
)

Check = Callable[[CatalogEntry], Awaitable[None]]
"""Raises VersionImmutable if the catalog would not take the entry, Unavailable if it is not known."""
Warnings = Sequence[str]
"""What could not be checked or recorded of an object that is allowed all the same."""

_log = structlog.get_logger(__name__)


class Records(Protocol):
    """Where it is noted who created an object; `store.workflows.authors.AdmissionRecords`."""

    async def record(
        self, *, resource: str, namespace: str, name: str, uid: str, username: str, identity: Mapping[str, Any]
    ) -> None:
        """Note it. Raises Unavailable if it was not noted."""

    async def record_author(self, *, namespace: str, version_id: str, identity: Mapping[str, Any]) -> None:
        """Note who wrote a version of a workflow. Raises Unavailable if it was not noted."""


class Validator:
    """Answers for every kind of ours. `operator_user` alone may create invocations in the name of others."""

    def __init__(self, *, check: Check, records: Records, operator_user: str, metrics: OperatorMetrics) -> None:
        self._check = check
        self._records = records
        self._operator_user = operator_user
        self._metrics = metrics
        self._judges: dict[Resource, Callable[[Submission], Awaitable[Warnings]]] = {
            WORKFLOWS: self._workflow,
            INVOCATIONS: self._invocation,
            APPROVALS: self._approval,
            CONTRACTS: self._contract,
        }

    async def answer(self, question: AdmissionQuestion) -> Json:
        """The AdmissionReview that answers a question.

        Raises:
            InvalidInput: what is asked about is no object of an API server.
        """
        if question.submission is None:
            return allowed(question.uid)
        resource, outcome = question.submission.resource, "failed"
        try:
            warnings = await self._judges[resource](question.submission)
            outcome = "failed" if warnings else "allowed"
        except Denied as denial:
            outcome = "failed" if isinstance(denial, NotRecorded) else "refused"
            return denied(question.uid, denial)
        finally:
            self._metrics.count_admission_review(resource.plural, outcome=outcome)
        return allowed(question.uid, warnings=warnings)

    async def _workflow(self, submission: Submission) -> Warnings:
        try:
            entry = entry_of(submission.document)
            # A new object cannot change a version. If the catalog has it, the object before it was deleted just now.
            if submission.is_update:
                async with asyncio.timeout(_SECONDS):
                    await self._check(entry)
            if not submission.dry_run:
                async with asyncio.timeout(_SECONDS):
                    await self._records.record_author(
                        namespace=submission.namespace, version_id=entry.version_id, identity=submission.user
                    )
        except InvalidManifest as error:
            finding = refused(error, current=None)
            raise Denied(finding.message, reason=finding.reason) from error
        except (Unavailable, TimeoutError) as error:
            _log.warning("version_not_checked", reason=str(error) or "no answer in time")
            return [_NOT_ASKED]
        return ()

    async def _invocation(self, submission: Submission) -> Warnings:
        require_unchanged(submission)
        require_own_name(submission, operator_user=self._operator_user)
        await self._record(submission)
        return ()

    async def _approval(self, submission: Submission) -> Warnings:
        require_unchanged(submission)
        await self._record(submission)
        return ()

    async def _contract(self, submission: Submission) -> Warnings:
        try:
            read = contract(submission.spec, name=submission.name, namespace=submission.namespace)
        except InvalidInput as error:
            raise Denied(str(error), reason=ConditionReason.INVALID) from error
        if hidden := hidden_in_contract(submission.spec):
            raise Denied(f"{hidden.field}: {hidden.problem}", reason=ConditionReason.INVALID)
        if halt_reason(read):
            try:
                await self._record(submission, key=author_key(submission.document["metadata"]))
            except NotRecorded as unrecorded:
                # Nobody is kept from the emergency stop: the trail then names the contract alone.
                return [str(unrecorded)]
        return ()

    async def _record(self, submission: Submission, *, key: str = "") -> None:
        """Note who creates the object, unless it is a rehearsal; under its uid, where there is no other `key`.

        Raises:
            Denied: it was not noted, so later nobody would know.
        """
        if submission.dry_run:
            return
        if len(submission.uid) > _MAX_UID or len(submission.name) > _MAX_NAME or len(submission.username) > _MAX_USER:
            raise Denied("its uid, name or creator is longer than any real one", reason=ConditionReason.INVALID)
        if "/" in submission.uid:
            raise Denied("its uid is none, but the key of a contract", reason=ConditionReason.INVALID)
        try:
            async with asyncio.timeout(_SECONDS):
                await self._records.record(
                    resource=submission.resource.plural,
                    namespace=submission.namespace,
                    name=submission.name,
                    uid=key or submission.uid,
                    username=submission.username,
                    identity=submission.user,
                )
        except (Unavailable, TimeoutError) as error:
            _log.warning("creator_not_recorded", reason=str(error) or "no answer in time")
            raise NotRecorded from error
