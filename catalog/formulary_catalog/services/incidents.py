"""Takes alerts from incident sources: who sends them is proven, and they are stored before anything is answered.

The edge asks `sender` before it reads a body, the endpoint `require_signature` before it parses one, then `receive`. A
source of which nothing is known and a wrong secret get one answer: strangers do not learn which sources there are.
"""

import hashlib
import hmac
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from cachetools import LRUCache
from pydantic import Field

from formulary_catalog.domain.alerts.episodes import Change
from formulary_catalog.domain.alerts.reading import Alert, Unmapped, read_alerts
from formulary_catalog.domain.answers.catalog import Answer
from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.domain.text import storable
from formulary_catalog.errors import InvalidInput, NotAuthenticated, NotInvocable, NotSetUp, Overloaded
from formulary_catalog.store.alerts import AlertWriter
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incident_sources import IncidentSourceReader, StoredSource

SIGNATURE_HEADER = "X-PagerDuty-Signature"
_SIGNED = "pagerduty"
_VERSION = "v1="
_BEARER = "bearer "
_MAX_SHOWN = 20
_A_SECOND, _AT_ONCE = 50.0, 500.0
"""Messages of one source to one process. A message may hold a thousand alerts."""
_NOT_PROVEN = (
    "no incident source of this address takes the message: the address ends in NAMESPACE/NAME of an IncidentSource, "
    "and the message needs the secret that its spec.auth.secretRef names, as `Authorization: Bearer SECRET`, or as the "
    f"signature in {SIGNATURE_HEADER} for type pagerduty"
)
_log = structlog.get_logger(__name__)


class RefusedAlert(Answer):
    """An alert that became nothing."""

    fingerprint: str
    problem: str = Field(description="Why, and what is missing.")


class ReceivedAlerts(Answer):
    """What became of the alerts of a message. All of it is stored."""

    source: str = Field(description="namespace/name of the IncidentSource.")
    begun: int = Field(description="Incidents that began, or began again.")
    repeated: int = Field(description="Alerts of incidents that were known already.")
    ended: int = Field(description="Incidents that ended.")
    ignored: int = Field(description="Messages about what had ended before, or was never known.")
    incidents: list[str] = Field(description="Remediation ids of the incidents, the first 20.")
    refused: list[RefusedAlert] = Field(description="Alerts that became nothing, the first 20.")


@dataclass(slots=True)
class _Allowance:
    """How many messages a source may send now, and since when that is so."""

    left: float
    at: float


class AlertReceiving:
    """Knows who sends a message, and stores what it says. `asks`: whether every sender has to prove itself."""

    def __init__(
        self,
        database: Database,
        *,
        keys: InputKeys,
        asks: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = IncidentSourceReader(database)
        self._alerts = AlertWriter(database)
        self._keys = keys
        self._asks = asks
        self._clock = clock
        self._allowances: LRUCache[str, _Allowance] = LRUCache(1024)

    async def sender(self, namespace: str, name: str, *, authorization: Sequence[str], signed: bool) -> StoredSource:
        """The source that a message is from; `signed` says that it has a signature, which `require_signature` checks.

        Raises:
            NotAuthenticated: there is no such source, or the message does not prove that it is from it.
            Unavailable: the database does not answer.
        """
        known = storable(namespace) and storable(name)
        source = await self._sources.find(namespace=namespace, name=name) if known else None
        if source is None:
            raise NotAuthenticated(_NOT_PROVEN)
        if not source.asks_for_proof:
            if self._asks:
                raise NotAuthenticated(_NOT_PROVEN)
        elif source.spec.type == _SIGNED:
            if not signed:
                raise NotAuthenticated(_NOT_PROVEN)
        elif not any(source.is_token(token) for token in _tokens(authorization)):
            raise NotAuthenticated(_NOT_PROVEN)
        return source

    async def receive(self, source: StoredSource, body: Mapping[str, Any]) -> ReceivedAlerts:
        """Store the alerts of a message whose signature was asked for.

        Raises:
            InvalidInput: it is no message of this type of source, or none of its alerts is about something that the
                source may speak for.
            Overloaded: the source sends more than is taken, or has too many incidents.
            Unavailable: the database does not answer; nothing is stored.
        """
        named = f"{source.namespace}/{source.name}"
        self._take_allowance(named)
        alerts, refused = read_alerts(source.spec, body)
        problem = f"{len(refused)} of {len(refused) + len(alerts)}: {_said(refused[0])}" if refused else ""
        changes = await self._alerts.receive(
            namespace=source.namespace, name=source.name, alerts=alerts, problem=problem, at=datetime.now(UTC)
        )
        counts = Counter(changes)
        _log.info("alerts_received", source=named, refused=len(refused), **{str(each): counts[each] for each in Change})
        if refused:
            _log.warning("alerts_refused", source=named, count=len(refused), reason=problem)
        if refused and not alerts:
            raise InvalidInput(f"nothing was stored: {_said(refused[0])}", field="alerts")
        return _answer(named, alerts, changes=counts, refused=refused)

    def require_signature(self, source: StoredSource, *, raw: bytes, signature: str) -> None:
        """Refuse a message whose bytes are not signed as its source asks for; nothing in it is read before.

        Raises:
            NotAuthenticated: the signature is not that of the bytes.
            NotSetUp: no key decrypts the secret.
        """
        if source.spec.type != _SIGNED or source.sealed_secret is None:
            return
        try:
            secret = source.signing_secret(self._keys)
        except NotInvocable:
            raise NotSetUp(
                f"the signing secret of incident source {source.namespace}/{source.name} cannot be decrypted with the "
                "keys of FORMULARY_INPUT_KEY_FILE; the server and the operator need the same file"
            ) from None
        expected = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
        given = [each.strip().removeprefix(_VERSION) for each in signature.split(",") if _VERSION in each]
        if not any(hmac.compare_digest(expected.encode(), each.encode()) for each in given):
            raise NotAuthenticated(_NOT_PROVEN)

    def _take_allowance(self, named: str) -> None:
        now = self._clock()
        allowance = self._allowances.setdefault(named, _Allowance(_AT_ONCE, now))
        allowance.left = min(_AT_ONCE, allowance.left + (now - allowance.at) * _A_SECOND)
        allowance.at = now
        if allowance.left < 1:
            raise Overloaded(
                f"incident source {named} sends more than {_A_SECOND:g} messages a second, so this one was not stored; "
                "send it again in a second, and group alerts",
                retry_after=1.0,
            )
        allowance.left -= 1


def _tokens(authorization: Sequence[str]) -> list[str]:
    return [each[len(_BEARER) :].strip() for each in authorization if each[: len(_BEARER)].casefold() == _BEARER]


def _said(refused: Unmapped) -> str:
    return f"alert {refused.fingerprint}: {refused.problem}"


def _answer(
    named: str, alerts: Sequence[Alert], *, changes: Mapping[Change, int], refused: Sequence[Unmapped]
) -> ReceivedAlerts:
    return ReceivedAlerts(
        source=named,
        begun=changes.get(Change.BEGUN, 0),
        repeated=changes.get(Change.REPEATED, 0),
        ended=changes.get(Change.ENDED, 0),
        ignored=changes.get(Change.IGNORED, 0),
        incidents=list(dict.fromkeys(each.id for each in alerts))[:_MAX_SHOWN],
        refused=[RefusedAlert(fingerprint=each.fingerprint, problem=each.problem) for each in refused[:_MAX_SHOWN]],
    )
