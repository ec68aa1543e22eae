"""The audit trail watched over: checkpoints while it grows, and a proof now and then that nothing was bent."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from formulary_catalog.domain.replay import Replay
from formulary_catalog.errors import FormularyError
from formulary_catalog.store.audit_keys import public_keys, signing_key
from formulary_catalog.store.checkpoints import CheckpointStore, keep_checkpointing
from formulary_catalog.store.database import Database
from formulary_catalog.store.trace_reading import TraceReader
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings

_MAX_TOLD = 20
_SOON_SECONDS = 300.0
"""Until the first verification, and after one that did not come to an end."""
_log = structlog.get_logger(__name__)


class Auditing:
    """Writes checkpoints, and verifies the whole trail every few hours.

    Raises:
        StartupError: a key that the settings name cannot be read.
    """

    def __init__(self, settings: OperatorSettings, *, database: Database, metrics: OperatorMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._checkpoints = CheckpointStore(database)
        self._signing = signing_key(settings)
        self._keys = public_keys(settings)

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """What has to be done all the time."""
        checkpoints = keep_checkpointing(
            self._checkpoints, every_seconds=self._settings.checkpoint_seconds, key=self._signing
        )
        return [checkpoints, self._keep_verifying()] if self._settings.verify_seconds else [checkpoints]

    async def _keep_verifying(self) -> None:
        self._metrics.trail_watched()
        pause = min(_SOON_SECONDS, self._settings.verify_seconds)  # replicas may come and go faster than it is due
        while True:
            await asyncio.sleep(pause)
            try:
                async with TraceReader.open(self._settings.database_url) as reader:
                    self._tell(await reader.verify(keys=self._keys, seen=self._checkpoints.written))
                pause = self._settings.verify_seconds
            except FormularyError as error:
                # The alert on the age of the last verification tells if this goes on.
                _log.warning("trail_not_verified", reason=str(error))
                pause = min(_SOON_SECONDS, self._settings.verify_seconds)

    def _tell(self, replay: Replay) -> None:
        self._metrics.trail_verified(findings=len(replay.findings))
        if replay.passed:
            _log.info("trail_verified", events=replay.event_count, traces=replay.trace_count)
        for finding in replay.findings[:_MAX_TOLD]:
            _log.error("trail_broken", trace=finding.trace_id, seq=finding.seq, problem=finding.problem)
