"""Admission: which lane a call takes, and how wide the lanes are."""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.invocation.waiting import PLACES as RUNS_WAITED_FOR
from formulary_catalog.metrics import Metrics
from formulary_catalog.server.failures import CALL_SECONDS
from formulary_catalog.server.lane import Lane
from formulary_catalog.server.replies import INVOKE_PATH, MCP_PATH
from formulary_catalog.server.toolbox import TOOLS_BY_NAME
from formulary_catalog.settings import Settings

_RUN_PATHS = (INVOKE_PATH, "/api/v1/invocations/", "/api/workflow/status/")
_CATALOG_PATHS = ("/api/v1/workflows", "/api/v1/selections")
_PROTOCOL_AT_ONCE = 64
_PROTOCOL_WAITING = 256


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
        return self._catalog if path.startswith(_CATALOG_PATHS) else self._protocol

    def _lane_of_message(self, message: Mapping[str, Any]) -> Lane:
        if message["method"] == "resources/read":
            return self._catalog
        if message["method"] != "tools/call":
            return self._protocol
        name = (message.get("params") or {}).get("name")
        tool = TOOLS_BY_NAME.get(name) if isinstance(name, str) else None
        if tool is None:
            return self._protocol
        return self._runs if tool.seconds > CALL_SECONDS else self._catalog
