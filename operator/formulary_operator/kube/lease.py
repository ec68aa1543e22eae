"""Leader election: of all replicas, one holds a Lease and works; the others wait for it to stop renewing.

`runtime` acquires it before it writes anything, and stops as soon as `keep` fails. The rules are in `election`. Why it
is not that of the Kubernetes client: `docs/adr/0005-own-lease.md`.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from formulary_catalog.errors import FormularyError
from formulary_operator.api.names import LEASES, Json
from formulary_operator.kube import election
from formulary_operator.kube.client import KubeClient, KubernetesRefused

_RELEASE_SECONDS = 3.0

_log = structlog.get_logger(__name__)


class LeadershipLost(FormularyError):
    """Another replica leads, or may lead soon: whoever led stops at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """All in seconds. What is left between `deadline` and `duration` is the leader's time to stop."""

    duration: int = 15
    deadline: float = 10.0
    renewal: float = 5.0
    retry: float = 1.0


class Leadership:
    """One contender for a Lease. `identity` names it and must be unique among those that run at the same time."""

    def __init__(
        self, client: KubeClient, *, namespace: str, name: str, identity: str, times: LeaseTimes | None = None
    ) -> None:
        self._client = client
        self._collection = LEASES.path(namespace=namespace)
        self._object = LEASES.path(namespace=namespace, name=name)
        self._lease = f"{namespace}/{name}"
        self._metadata = {"namespace": namespace, "name": name}
        self._identity = identity
        self._times = times or LeaseTimes()
        self._seen: election.Observed | None = None
        self._renewed: float | None = None
        self._last_reported = ""

    async def acquire(self) -> None:
        """Wait until we lead, however long the API server is away or the lease is another's."""
        while True:
            if await self._claim():
                _log.info("leading", lease=self._lease, identity=self._identity)
                return
            # Another try at the very moment at which the lease of a holder that is gone ends.
            await asyncio.sleep(min(self._times.retry, self._claimable_in() or self._times.retry))

    async def keep(self) -> None:
        """Renew the lease for as long as we lead; call it after `acquire`.

        Raises:
            LeadershipLost: another replica took the lease, or it could not be renewed within the deadline.
        """
        while True:
            await asyncio.sleep(self._times.renewal)
            await self._renew()

    async def release(self) -> None:
        """Give the lease back, so that the next leader need not wait; does nothing without it. Never raises."""
        if self._renewed is None:
            return
        self._renewed = None
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                lease = await self._client.get(self._object)
                if lease is None or election.holder(_spec(lease)) != self._identity:
                    return
                await self._write(lease, spec=election.released(_spec(lease), at=datetime.now(UTC)))
        except (FormularyError, TimeoutError) as error:
            _log.warning("lease_not_released", lease=self._lease, reason=str(error), effect="it expires by itself")

    async def _renew(self) -> None:
        assert self._renewed is not None, "acquire() comes first"
        try:
            async with asyncio.timeout_at(self._renewed + self._times.deadline):
                while not await self._claim():
                    self._require_held()
                    await asyncio.sleep(self._times.retry)
        except TimeoutError:
            raise LeadershipLost(
                f"lease {self._lease} could not be renewed within {self._times.deadline:g} s, so another replica may "
                f"take over; this one stops ({self._last_reported or 'no answer from the Kubernetes API'})"
            ) from None

    def _require_held(self) -> None:
        other = election.holder(self._seen.spec) if self._seen else ""
        if other not in ("", self._identity):
            raise LeadershipLost(f"lease {self._lease} is held by {other} now; this replica stops")

    async def _claim(self) -> bool:
        """Try once to take or renew the lease; a failure is reported when it changes, and the caller tries again."""
        # Counted from before the request: nobody can have seen the renewed record earlier than that.
        now = asyncio.get_running_loop().time()
        try:
            won = await self._try()
        except FormularyError as error:
            self._report(str(error))
            return False
        self._last_reported = ""
        if won:
            self._renewed = now
        return won

    def _claimable_in(self) -> float:
        """Seconds until the lease may be claimed, as far as is known."""
        if self._seen is None:
            return 0
        now, seconds = asyncio.get_running_loop().time(), self._times.duration
        return election.seconds_until_claim(self._seen, identity=self._identity, now=now, seconds=seconds)

    async def _try(self) -> bool:
        lease = await self._client.get(self._object)
        spec = _spec(lease)
        now = asyncio.get_running_loop().time()
        self._seen = election.observed(spec, before=self._seen, now=now)
        if self._claimable_in() > 0:
            return False
        wanted = election.claimed(spec, identity=self._identity, seconds=self._times.duration, at=datetime.now(UTC))
        try:
            written = await self._write(lease, spec=wanted)
        except KubernetesRefused as error:
            if error.status == 409:
                return False
            raise
        self._seen = election.observed(_spec(written), before=self._seen, now=now)
        return True

    async def _write(self, lease: Json | None, *, spec: Json) -> Json:
        """Status 409 if somebody else wrote it since it was read, or created it meanwhile."""
        if lease is None:
            created = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": self._metadata, "spec": spec}
            return await self._client.create(self._collection, created)
        return await self._client.replace(self._object, {**lease, "spec": spec})

    def _report(self, problem: str) -> None:
        if problem != self._last_reported:
            _log.warning("lease_not_claimed", lease=self._lease, reason=problem, effect="tried again")
        self._last_reported = problem


def _spec(lease: Json | None) -> Json:
    return (lease or {}).get("spec") or {}
