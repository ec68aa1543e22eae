"""Sends what the outbox holds to the receivers of the settings. `runtime` keeps it going on the leader.

Each receiver has a loop of its own, so that one that hangs delays no other: claim one notice, send it, note what came
of it. After a crash the claim expires, and the notice is sent again with the same id.
"""

import asyncio
import time
from collections.abc import Coroutine, Mapping
from datetime import datetime
from typing import Any

import httpx2
import structlog

from formulary_catalog.domain.notifications.formats import message_of
from formulary_catalog.domain.notifications.notices import Notice
from formulary_catalog.domain.notifications.receivers import (
    KEY_FILE,
    URL_FILE,
    Receiver,
    http_address,
    signature_headers,
)
from formulary_catalog.errors import FormularyError
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.database.fencing import Superseded
from formulary_catalog.store.notifications import LEASE_SECONDS, Claimed, Delivery, Outbox
from formulary_operator.metrics import OperatorMetrics

ATTEMPT_SECONDS = 10.0
"""An attempt takes no longer, from the connection to the status of the answer."""
_LOOK_SECONDS = 2.0
_LONGEST_PAUSE = 60.0
_ANNOUNCE_SECONDS, _ANNOUNCE_AGAIN_SECONDS = 3600.0, 15.0
_log = structlog.get_logger(__name__)
assert ATTEMPT_SECONDS < LEASE_SECONDS


class NotDelivered(Exception):
    """An attempt failed. The message names neither the address nor a key."""


class Notifying:
    """Notifies the receivers of what happens to runs. `sender` is the name that all replicas share."""

    def __init__(
        self,
        receivers: tuple[Receiver, ...],
        *,
        sender: str,
        database: Database,
        metrics: OperatorMetrics,
        console_url: str,
    ) -> None:
        self._receivers = receivers
        self._outbox = Outbox(database, sender=sender)
        self._metrics = metrics
        self._console_url = console_url

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """What has to be done all the time."""
        return [self._keep_announcing(), *(self._keep_sending(receiver) for receiver in self._receivers)]

    async def _keep_announcing(self) -> None:
        while True:
            pause = _ANNOUNCE_SECONDS
            try:
                await self._outbox.announce(self._receivers)
            except Superseded:
                raise
            except FormularyError as error:
                _log.warning("receivers_not_announced", reason=str(error))
                pause = _ANNOUNCE_AGAIN_SECONDS
            await asyncio.sleep(pause)

    async def _keep_sending(self, receiver: Receiver) -> None:
        """Send until cancelled; after failures with pauses, so that a receiver that is down is not flooded."""
        failures = 0
        self._metrics.expect_notifications(receiver.name)
        while True:
            try:
                sent = await self.send_next(receiver)
                failures = 0
            except Superseded:
                raise
            except Exception as error:  # whatever is wrong with one receiver must not end the operator
                failures += 1
                sent = False
                reason = str(error) if isinstance(error, NotDelivered | FormularyError) else type(error).__name__
                _log.warning("notification_not_delivered", receiver=receiver.name, reason=reason)
            if not sent:
                await asyncio.sleep(min(_LOOK_SECONDS * 2.0 ** min(failures, 10), _LONGEST_PAUSE))

    async def send_next(self, receiver: Receiver) -> bool:
        """Deliver the next notice that is due; False if none is.

        Raises:
            NotDelivered: the receiver did not take it; it is due again later, or given up.
            Unavailable: the database does not answer.
        """
        claimed = await self._outbox.claim(receiver.name)
        if claimed is None:
            return False
        if claimed.notice is None:
            _log.error("notification_given_up", receiver=receiver.name, id=claimed.id, reason="of another release")
            await self._settle(receiver, claimed, Delivery.GIVEN_UP)
            return True
        if claimed.overtaken:
            await self._settle(receiver, claimed, Delivery.OVERTAKEN)
            return True
        try:
            await self._post(receiver, claimed.notice, at=claimed.at)
        except NotDelivered:
            self._metrics.count_notification(receiver.name, "failed")
            if claimed.late:
                _log.error("notification_given_up", receiver=receiver.name, id=claimed.id, attempts=claimed.attempts)
                await self._settle(receiver, claimed, Delivery.GIVEN_UP)
            else:
                await self._outbox.postpone(receiver.name, claimed)
            raise
        await self._settle(receiver, claimed, Delivery.DELIVERED)
        return True

    async def _settle(self, receiver: Receiver, claimed: Claimed, delivery: Delivery) -> None:
        await self._outbox.settle(receiver.name, claimed, delivery)
        self._metrics.count_notification(receiver.name, delivery)

    async def _post(self, receiver: Receiver, notice: Notice, *, at: datetime) -> None:
        """One attempt. Only the status of the answer counts; its body is not read."""
        content_type, body = message_of(notice, format=receiver.format, at=at, console_url=self._console_url)
        url, headers = await asyncio.to_thread(_addressed, receiver, id=notice.id, body=body)
        headers = {"Content-Type": content_type, "User-Agent": "formulary", **headers}
        try:
            async with (
                asyncio.timeout(ATTEMPT_SECONDS),
                httpx2.AsyncClient(timeout=None, follow_redirects=False) as client,
                client.stream("POST", url, content=body, headers=headers) as response,
            ):
                status = response.status_code
        except TimeoutError:
            raise NotDelivered(f"it did not answer within {ATTEMPT_SECONDS:.0f} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise NotDelivered(f"it cannot be reached ({type(error).__name__})") from None
        if not 200 <= status < 300:
            raise NotDelivered(f"it answers with status {status}")


def _addressed(receiver: Receiver, *, id: str, body: bytes) -> tuple[str, Mapping[str, str]]:
    """The address of a receiver and the headers that sign; read each time, since Secrets are rotated."""
    try:
        url, key = receiver.url or "", ""
        if receiver.secret_dir is not None:
            url = url or http_address((receiver.secret_dir / URL_FILE).read_text().strip())
            key_file = receiver.secret_dir / KEY_FILE
            key = key_file.read_text().strip() if key_file.exists() else ""
        return url, signature_headers(key, id=id, timestamp=int(time.time()), body=body) if key else {}
    except OSError as error:
        raise NotDelivered(f"{error.filename} cannot be read ({error.strerror})") from None
    except ValueError:  # it may quote what is secret
        raise NotDelivered("its url or signing key cannot be used; correct the Secret") from None
