"""How a run stands, in the words of invocations, and the outputs that it leaves.

The `observe` and `outputs` of each engine end here, so that all engines report alike. Outputs come from what a workflow
writes: they are bounded, and made fit for PostgreSQL. Pure.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from formulary_catalog.domain.runs.run import Phase, Reason
from formulary_operator.api.names import Json
from formulary_operator.engines import config as reading
from formulary_operator.engines.plan import Observation

MAX_MESSAGE = 2000
MAX_BYTES = 16 * 1024
OMITTED = "formulary.dev/omitted"
"""Key under which it is said that outputs were left out."""
_ROOM_FOR_NOTE = 256
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def running(*, started_at: datetime | None, message: str = "") -> Observation:
    """A run that has not ended."""
    return Observation(phase=Phase.RUNNING, reason=Reason.STARTED, message=message[:MAX_MESSAGE], started_at=started_at)


def succeeded(*, started_at: datetime | None, finished_at: datetime | None, message: str = "") -> Observation:
    """A run that has done what it should."""
    return Observation(
        phase=Phase.SUCCEEDED,
        reason=Reason.COMPLETED,
        message=message[:MAX_MESSAGE],
        started_at=started_at,
        finished_at=finished_at,
    )


def failed(
    *, timed_out: bool, started_at: datetime | None, finished_at: datetime | None, message: str = ""
) -> Observation:
    """A run that has ended without success."""
    return Observation(
        phase=Phase.TIMED_OUT if timed_out else Phase.FAILED,
        reason=Reason.DEADLINE_EXCEEDED if timed_out else Reason.RUN_FAILED,
        message=message[:MAX_MESSAGE],
        started_at=started_at,
        finished_at=finished_at,
    )


def outputs_of(message: str) -> Json:
    """The outputs that a text holds: a JSON object as it is, text under `message`, nothing for an empty one."""
    try:
        parsed = json.loads(message)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        return bounded(parsed)
    return bounded({"message": message}) if message.strip() else {}


def bounded(outputs: Mapping[str, Any]) -> Json:
    """The outputs as far as they fit into 16 KiB, in their order; what is left out is counted, not passed over."""
    kept: Json = {}
    room = MAX_BYTES - _ROOM_FOR_NOTE
    omitted = 0
    for name, value in outputs.items():
        entry = {reading.text(name): _storable(value)}
        size = len(_encoded(entry))
        if size > room:
            omitted += 1
            continue
        room -= size
        kept |= entry
    note = f"{omitted} of {len(outputs)} outputs are left out: together they exceed {MAX_BYTES // 1024} KiB"
    return kept | {OMITTED: note} if omitted else kept


def _storable(value: object) -> object:
    """The value, if PostgreSQL can store it as it is; else as text."""
    if isinstance(value, str):
        return reading.text(value)
    try:
        encoded = json.dumps(value, allow_nan=False, ensure_ascii=False)
        encoded.encode()
        return value if not _NUL.search(encoded) else reading.text(encoded)
    except (ValueError, TypeError, RecursionError):
        return reading.text(repr(value)) if not isinstance(value, dict | list) else "(cannot be stored)"


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
