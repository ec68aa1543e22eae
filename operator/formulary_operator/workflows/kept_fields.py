"""Which fields of a workflow's status the cluster keeps: those that its CRD has.

`resync` finds them out at each comparison. It and the reconciler compare statuses with them: so a field that a release
adds reaches every object, and one that the CRD of the ecosystem or of an older release drops is not written for ever.
"""

from collections.abc import Mapping, Sequence

import structlog

from formulary_operator.api.names import WORKFLOWS, Json
from formulary_operator.kube.client import KubeClient, KubernetesRefused
from formulary_operator.kube.conditions import status_of
from formulary_operator.reporting import timestamp
from formulary_operator.workflows.status import wanted_status
from formulary_operator.workflows.validation_result import ConditionReason, ValidationResult

_WHOLE = ValidationResult(
    reason=ConditionReason.SERVED, message="Every field.", version_id="wf_ver_0", content_hash="0", model_id="none"
)
"""Its status has every field."""
_log = structlog.get_logger(__name__)


class KeptFields:
    """Knows none until it has found them out; then a field that an object lacks is no difference."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.names: frozenset[str] = frozenset()

    async def find_out(self, documents: Sequence[Json]) -> None:
        """From objects that have them, else from the API server: what it would keep of a whole status of the first.

        Raises:
            KubernetesUnavailable: the API server does not answer.
        """
        whole = wanted_status(documents[0], _WHOLE, now=timestamp())
        names = {field for document in documents for field in status_of(document)}
        if not names.issuperset(whole):
            names |= (await self._kept(documents[0], whole)).keys()
        self.names = frozenset(names)

    async def _kept(self, document: Json, status: Json) -> Mapping[str, object]:
        metadata = document["metadata"]
        path = WORKFLOWS.path(namespace=metadata["namespace"], name=metadata["name"], subresource="status")
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        try:
            answer = await self._client.merge(path, patch, dry_run=True)
        except KubernetesRefused as error:
            effect = "a field of the status that this release adds may reach an object only at its next change"
            _log.warning("status_fields_unknown", reason=str(error), effect=effect)
            return {}
        return status_of(answer or {})
