"""One GovernanceContract: from the cluster's object to the rules in force and back to the object's status.

The work queue calls it with a name, `wiring` builds it. Invalid rules never replace good ones: the last good rules
stay in force, and the status says so. A change makes all open runs be looked at again.
"""

import structlog

from formulary_catalog.domain.governance.contract import contract
from formulary_catalog.errors import InvalidInput
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_operator.api.names import CONTRACTS, Json
from formulary_operator.governance.status import (
    author_key,
    contract_change,
    contract_status,
    halting,
    in_force,
    not_in_force,
)
from formulary_operator.kube.client import KubeClient
from formulary_operator.kube.conditions import Said
from formulary_operator.reporting import Reporter, timestamp
from formulary_operator.runs.poller import RunPoller

_log = structlog.get_logger(__name__)


class ContractReconciler:
    """Keeps the rules in step with the objects, and has the open runs looked at when rules may have changed."""

    def __init__(
        self,
        *,
        client: KubeClient,
        contracts: ContractWriter,
        admissions: AdmissionRecords,
        reporter: Reporter,
        poller: RunPoller,
    ) -> None:
        self._client = client
        self._admissions = admissions
        self._contracts = contracts
        self._reporter = reporter
        self._poller = poller

    async def reconcile(self, *, namespace: str, name: str) -> str:
        """Bring one object in step. What was found: `InForce`, `Halting`, `Invalid` or `Gone`.

        Raises:
            Unavailable: the database or the API server does not answer; try again later.
        """
        document = await self._client.get(CONTRACTS.path(namespace=namespace, name=name))
        if document is None or "deletionTimestamp" in document["metadata"]:
            await self._contracts.remove(namespace=namespace, name=name)
            self._poller.look_at_all()
            _log.info("contract_removed", namespace=namespace, name=name)
            return "Gone"
        said = await self._enforce(document)
        self._poller.look_at_all()
        wanted = contract_status(document, said, now=timestamp())
        await self._reporter.report(document, wanted, change=contract_change(document, said))
        return said.reason

    async def _enforce(self, document: Json) -> Said:
        metadata, spec = document["metadata"], document.get("spec")
        named = {"namespace": metadata["namespace"], "name": metadata["name"]}
        rules = spec if isinstance(spec, dict) else {}
        author = await self._admissions.username(author_key(metadata))
        by = f"{author} with contract {metadata['namespace']}/{metadata['name']}" if author else ""
        try:
            halt = await self._contracts.save(rules, uid=metadata["uid"], by=by, **named)
        except InvalidInput as error:
            # Not what belonged to a deleted object of this name.
            await self._contracts.remove(unless_owned_by=metadata["uid"], **named)
            stored = await self._contracts.stored()
            return not_in_force(str(error), has_earlier=(metadata["namespace"], metadata["name"]) in stored)
        if halt is not None:
            _log.warning("runs_halted", where=halt.where, contract=halt.contract, by=halt.by, reason=halt.reason)
            return halting(halt.where, reason=halt.reason)
        return in_force(contract(rules, name=metadata["name"], namespace=metadata["namespace"]))
