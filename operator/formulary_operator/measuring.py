"""Asks the Prometheus of the settings whether all was well around a run (DESIGN section 15).

`runs/verifying` calls it once the window of a run is over: a range of Prometheus says what was at each moment until
then, so that neither a restart nor an outage of this process loses anything of it.
"""

import asyncio
import json
import math
import time
from datetime import datetime
from typing import Any

import httpx2
import structlog

from formulary_catalog.domain.runs.measurement import NotMeasured, OutcomeQueries, samples_in
from formulary_catalog.domain.runs.outcome import Samples
from formulary_catalog.domain.runs.run import RunTarget
from formulary_catalog.errors import Unavailable

_SECONDS = 2.0
"""An answer takes no longer: other runs wait for it meanwhile."""
_PAUSE_SECONDS = 30.0
"""After a failure a query is not asked for so long."""
_STEP_SECONDS = 15
"""As often as Prometheus usually looks; of the longest window these are 2,900 samples."""
_MOST_BYTES = 1024 * 1024
_log = structlog.get_logger(__name__)


class Measuring:
    """Asks the queries of the settings; None for none."""

    def __init__(self, queries: OutcomeQueries | None) -> None:
        self._queries = queries
        self._resumes_at: dict[str, float] = {}

    async def samples(self, name: str, *, target: RunTarget, since: datetime, until: datetime) -> Samples:
        """Whether all was well with a target, by the query of this name, from `since` or a little before to `until`.

        Raises:
            NotMeasured: the query says nothing about this target.
            Unavailable: Prometheus does not answer.
        """
        if self._queries is None:
            raise NotMeasured(f"query {name} of its workflow is not asked here, since there is no Prometheus")
        query = self._queries.expression(name, target=target)
        if time.monotonic() < self._resumes_at.get(name, 0.0):
            raise Unavailable("Prometheus did not answer a moment ago")
        end = math.floor(until.timestamp())  # in whole seconds, so that the last sample is at the end
        start = end - _STEP_SECONDS * math.ceil((end - since.timestamp()) / _STEP_SECONDS)
        asked = {"query": query, "start": str(start), "end": str(end), "step": str(_STEP_SECONDS)}
        try:
            return samples_in(await self._answer(asked, name=name), name=name, until=until, step=_STEP_SECONDS)
        except Unavailable:
            self._resumes_at[name] = time.monotonic() + _PAUSE_SECONDS
            raise
        except (KeyError, TypeError, ValueError):
            raise NotMeasured(f"query {name} was answered with something else than a range") from None

    async def _answer(self, asked: dict[str, str], *, name: str) -> Any:
        assert self._queries is not None, "somebody is there to ask"
        url, content = f"{str(self._queries.url).rstrip('/')}/api/v1/query_range", b""
        try:
            async with (
                asyncio.timeout(_SECONDS),
                httpx2.AsyncClient(timeout=None, follow_redirects=False) as client,
                client.stream("POST", url, data=asked) as response,
            ):
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > _MOST_BYTES:
                        raise NotMeasured(f"query {name} is answered with more than {_MOST_BYTES} bytes")
        except TimeoutError:
            raise Unavailable(f"Prometheus did not answer within {_SECONDS:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise Unavailable(f"Prometheus cannot be reached ({type(error).__name__})") from None
        if response.status_code in (400, 422):
            _log.error("outcome_query_refused", query=name, answer=content[:500].decode(errors="replace"))
            raise NotMeasured(f"query {name} is refused by Prometheus; the log of the operator says why")
        if response.status_code != 200:
            raise Unavailable(f"Prometheus answers with status {response.status_code}")
        return json.loads(content)
