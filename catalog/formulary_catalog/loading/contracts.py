"""Makes the rules in force what the GovernanceContract documents of the files say."""

from collections.abc import Collection

from formulary_catalog.loading.documents import file_of
from formulary_catalog.loading.manifests import FoundContract, Manifests
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.store.runs.contracts import ContractWriter

_UID = "manifest"
"""In the database, takes the place of the uid that a contract of the cluster has from its object."""


class ContractSync:
    """Remembers which contracts came from the files.

    `owns_all` says that nobody else writes contracts to this database: then those of earlier runs are ours as well.
    """

    def __init__(self, contracts: ContractWriter, *, owns_all: bool) -> None:
        self._contracts = contracts
        self._owns_all = owns_all
        self._ours: dict[tuple[str, str], FoundContract | None] | None = None

    async def run(
        self, manifests: Manifests, *, complete: bool, broken_files: Collection[str], report: LoadReport
    ) -> None:
        """Put new and changed contracts in force and end those that no file describes any more.

        None ends unless the files were listed completely, nor while the file it came from is broken.

        Raises:
            Unavailable: the database does not answer.
        """
        if self._ours is None:
            self._ours = dict.fromkeys(await self._contracts.stored()) if self._owns_all else {}
        for found in manifests.contracts:
            await self._save(found, ours=self._ours, report=report)
        described = {(found.contract.namespace, found.contract.name) for found in manifests.contracts}
        for key, earlier in list(self._ours.items()) if complete else ():
            # Of one from an earlier run nobody knows the file: a broken one may hold it, and rules fail closed.
            kept = bool(broken_files) if earlier is None else file_of(earlier.source) in broken_files
            if key in described or kept:
                continue
            namespace, name = key
            await self._contracts.remove(namespace=namespace, name=name)
            del self._ours[key]
            report.removed_contracts.append(f"{namespace}/{name}")
        report.contracts = len(self._ours)

    async def _save(
        self, found: FoundContract, *, ours: dict[tuple[str, str], FoundContract | None], report: LoadReport
    ) -> None:
        contract = found.contract
        key = (contract.namespace, contract.name)
        earlier = ours.get(key)
        if earlier is None or earlier.contract != contract:
            await self._contracts.save(
                contract.spec, namespace=contract.namespace, name=contract.name, uid=_UID, by=f"file {found.source}"
            )
            report.changed_contracts.append("/".join(key))
        ours[key] = found
