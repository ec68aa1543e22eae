"""A lane: a bounded number of calls in work, a bounded number that wait for that, and the rest refused.

What waits here has not begun: it holds its body and nothing else, and neither its own deadline nor the database's runs.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.edges.calls.error_replies import INVOKE_PATH, MCP_PATH
from formulary_catalog.edges.mcp.tools import TOOLS_BY_NAME
from formulary_catalog.errors import Overloaded
from formulary_catalog.metrics import Metrics
from formulary_catalog.operations.operation import CALL_SECONDS
from formulary_catalog.services.runs.waiting import PLACES as RUNS_WAITED_FOR
from formulary_catalog.settings import Settings

_RETRY_SECONDS = (1.0, 4.0)
"""Range of the delay: with one fixed delay, all clients that heed it would return at the same time."""
_REFUSAL_SECONDS = 0.2
"""What a refusal takes: who does not heed it and calls again at once would keep the process busy with refusing."""
_SLOW_REFUSALS = 256
_RUN_PATHS = (INVOKE_PATH, "/api/v1/invocations/", "/api/workflow/status/")
_PREFIX = "/api/v1/"
_WORK_PATHS = (_PREFIX, f"{CONSOLE_PATH}/")
_PROMPT_PATHS = (
    *(f"{_PREFIX}{path}" for path in ("openapi.json", "halts")),
    *(f"{CONSOLE_PATH}/{path}" for path in ("static/", "sign-in", "sign-out", "rules/halts")),
)
"""Files, and what must not wait behind searches: the emergency stop, and the way in and out."""
LANES = ("catalog", "runs", "protocol")
_PROTOCOL_AT_ONCE = 64
_PROTOCOL_WAITING = 256


@dataclass(eq=False, slots=True, kw_only=True)
class _Waiting:
    caller: str
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Lane:
    """Calls that wait for each other, in the order in which they came.

    While callers have to share, one of them has at most half of the slots and half of the places to wait.
    """

    def __init__(self, name: str, *, at_once: int, waiting: int, patience: float, metrics: Metrics) -> None:
        """`patience` is how many seconds a call waits at most."""
        self._name = name
        self._at_once = at_once
        self._places = waiting
        self._patience = patience
        self._metrics = metrics
        self._in_work: Counter[str] = Counter()
        self._waiting: list[_Waiting] = []
        self._being_refused = 0

    @asynccontextmanager
    async def slot(self, caller: str) -> AsyncIterator[bool]:
        """A slot to work in until the end of the block; says whether it had to be waited for.

        Raises:
            Overloaded: too many wait already, or none became free in time.
        """
        waited = self._in_work.total() >= self._at_once
        if waited:
            await self._wait(caller)
        else:
            self._in_work[caller] += 1
        self._observe()
        try:
            yield waited
        finally:
            self._leave(caller)

    async def _wait(self, caller: str) -> None:
        if len(self._present()) >= self._places and not self._make_place(caller):
            await self._refuse()
        waiting = _Waiting(caller=caller)
        self._waiting.append(waiting)
        self._observe()
        try:
            async with asyncio.timeout(self._patience):
                await waiting.turn
        except TimeoutError:
            self._give_up(waiting)
            raise self._refusal("late") from None
        except asyncio.CancelledError:
            self._give_up(waiting)
            raise

    def _make_place(self, caller: str) -> bool:
        """Whether the call that came last of a caller with more than half of the places was refused for this one."""
        places = Counter(waiting.caller for waiting in self._present())
        most = max(places, key=lambda other: places[other], default=caller)
        if most == caller or places[most] <= self._places / 2:
            return False
        last = next(waiting for waiting in reversed(self._present()) if waiting.caller == most)
        self._waiting.remove(last)
        last.turn.set_exception(self._refusal("full"))
        return True

    async def _refuse(self) -> None:
        refusal = self._refusal("full")
        if self._being_refused < _SLOW_REFUSALS:
            self._being_refused += 1
            try:
                await asyncio.sleep(_REFUSAL_SECONDS)
            finally:
                self._being_refused -= 1
        raise refusal

    def _give_up(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            self._observe()
        elif waiting.turn.exception() is None:  # the turn came in the same moment
            self._leave(waiting.caller)

    def _leave(self, caller: str) -> None:
        """Give the slot to the one whose turn it is."""
        self._in_work[caller] -= 1
        self._in_work += Counter()  # forgets those who have none
        following = self._next()
        if following is not None:
            self._waiting.remove(following)
            self._in_work[following.caller] += 1
            following.turn.set_result(None)
        self._observe()

    def _next(self) -> _Waiting | None:
        """The first whose caller has less than half of the slots, else the first."""
        present = self._present()
        few = (waiting for waiting in present if self._in_work[waiting.caller] < self._at_once / 2)
        return next(few, present[0] if present else None)

    def _present(self) -> list[_Waiting]:
        """Without those that have given up in this moment."""
        return [waiting for waiting in self._waiting if not waiting.turn.done()]

    def _refusal(self, reason: str) -> Overloaded:
        self._metrics.count_refusal(self._name, reason)
        retry_after = round(random.uniform(*_RETRY_SECONDS), 1)
        return Overloaded(
            f"the server is busy: {self._in_work.total()} calls run and {len(self._waiting)} wait; "
            f"retry in {retry_after:g} seconds, the call was not begun",
            retry_after=retry_after,
        )

    def _observe(self) -> None:
        self._metrics.set_calls(self._name, in_work=self._in_work.total(), waiting=len(self._waiting))


class Admission:
    """The lanes of a server. Calls of one kind cannot take the slots of another.

    `catalog`: what asks or writes the catalog and its trail. `runs`: calls that may wait for a run for half a minute.
    `protocol`: what costs next to nothing and clients begin with, such as `initialize` and `tools/list`.
    """

    def __init__(self, settings: Settings, *, metrics: Metrics) -> None:
        waiting, patience = settings.calls_waiting, settings.call_wait_seconds

        def lane(name: str, *, at_once: int, waiting: int) -> Lane:
            return Lane(name, at_once=at_once, waiting=waiting, patience=patience, metrics=metrics)

        self._catalog = lane("catalog", at_once=settings.calls_at_once, waiting=waiting)
        self._runs = lane("runs", at_once=RUNS_WAITED_FOR + settings.calls_at_once, waiting=waiting)
        self._protocol = lane("protocol", at_once=_PROTOCOL_AT_ONCE, waiting=_PROTOCOL_WAITING)

    def lane(self, path: str, message: Mapping[str, Any]) -> Lane:
        """The lane of a request; `message` is the JSON-RPC message where the path is that of MCP."""
        if path == MCP_PATH:
            return self._lane_of_message(message)
        if path.startswith(_RUN_PATHS):
            return self._runs
        is_work = path.startswith(_WORK_PATHS) and not path.startswith(_PROMPT_PATHS)
        return self._catalog if is_work else self._protocol

    def _lane_of_message(self, message: Mapping[str, Any]) -> Lane:
        if message["method"] == "resources/read":
            return self._catalog
        if message["method"] != "tools/call":
            return self._protocol
        name = (message.get("params") or {}).get("name")
        tool = TOOLS_BY_NAME.get(name) if isinstance(name, str) else None
        if tool is None:
            return self._protocol
        return self._runs if (tool.spec.seconds or 0) > CALL_SECONDS else self._catalog
