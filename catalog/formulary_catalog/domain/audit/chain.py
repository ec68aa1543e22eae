"""A trace as a hash chain: what an event looks like, and whether a chain is as it was written.

An event is kept as its body, the canonical JSON of `{"at", "kind", "payload", "previous", "seq", "trace_id"}`, and the
SHA-256 of that text. `previous` is the hash of the event before, so no event can be changed without changing all that
follow; the head of the trace and the checkpoints say what the hashes were.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic_core import from_json

OWN_TRACE = "tr_"
"""How the id of a trace begins that belongs to no incident; others are the remediation ids of incidents."""
MAX_TRACE_ID = 253
GENESIS = "0" * 64
"""What the first event of a trace names as the hash before it."""
TRIAL, EXPLANATION = "read.trial", "read.explain"
"""A search that a person tried, and an explanation: each is in a trace of its own, and counts for nothing."""
HOLD_PLACED, HOLD_RELEASED = "hold.placed", "hold.released"
"""Events of a legal hold: while the newest of them says placed, the hold has to be there."""
_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_FIELDS = {"at", "kind", "payload", "previous", "seq", "trace_id"}


class Problem(StrEnum):
    """What can be wrong with a trace or with the checkpoints."""

    MALFORMED = "malformed"
    EDITED = "edited"
    COLUMN_EDITED = "column-edited"
    MISPLACED = "misplaced"
    REORDERED = "reordered"
    INSERTED = "inserted"
    MISSING = "missing"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"
    HEAD_EDITED = "head-edited"
    DROPPED = "dropped"
    CHECKPOINT_EDITED = "checkpoint-edited"
    CHECKPOINT_MISSING = "checkpoint-missing"
    CHECKPOINT_UNSIGNED = "checkpoint-unsigned"
    HOLD_MISSING = "hold-missing"
    FUNCTION_CHANGED = "function-changed"
    TRIGGER_CHANGED = "trigger-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityFinding:
    """Something that is not as it was written: events `seq` to `last` of a trace, or checkpoints where `trace_id` is
    empty. `seq` is 0 where it is about all of a trace."""

    problem: Problem
    message: str
    trace_id: str = ""
    seq: int = 0
    last: int = 0

    @property
    def place(self) -> str:
        """`events 3 to 5`, `checkpoint 2`; empty for all of a trace."""
        if not self.seq:
            return ""
        what = "event" if self.trace_id else "checkpoint"
        return f"{what} {self.seq}" if self.last <= self.seq else f"{what}s {self.seq} to {self.last}"


@dataclass(frozen=True, kw_only=True)
class StoredEvent:
    """An event as it is stored. Its columns repeat what the body says; `search_id` is empty where there is none."""

    trace_id: str
    seq: int
    kind: str
    caller: str
    search_id: str
    body: str
    hash: str

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """The body, read; empty if it is no JSON object, which only tampering leaves behind."""
        try:
            read = from_json(self.body)
        except ValueError:
            return {}
        return read if isinstance(read, dict) else {}

    @property
    def at(self) -> datetime:
        """When it was written, in UTC; 1970 where the body does not say."""
        try:
            return datetime.fromisoformat(self.content["at"]).astimezone(UTC)
        except (KeyError, TypeError, ValueError, OverflowError):
            return datetime.fromtimestamp(0, UTC)

    @property
    def payload(self) -> Any:
        """What was recorded: an object, unless the body was tampered with."""
        return self.content.get("payload", {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the database holds as the newest event of a trace, and up to which one checkpoints vouch for it.

    `at` is when that event was written, as its body spells it: what expires is decided by it.
    """

    seq: int
    hash: str
    at: str
    checkpointed: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """What a checkpoint says of a trace: which event was the newest then. `expired`: the trace was dropped by then."""

    checkpoint: int
    seq: int
    hash: str
    expired: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointTime:
    """A checkpoint by its number, and when it was written, as its text spells it."""

    id: int
    at: str

    def __str__(self) -> str:
        return f"checkpoint {self.id} of {self.at[:19]}Z"


def digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_event(content: Mapping[str, Any]) -> bool:
    """Whether an object has the fields of an event, of the right types, and no others."""
    return (
        content.keys() == _FIELDS
        and isinstance(content["at"], str)
        and _AT.fullmatch(content["at"]) is not None
        and isinstance(content["kind"], str)
        and isinstance(content["payload"], dict)
        and isinstance(content["previous"], str)
        and type(content["seq"]) is int
        and content["seq"] > 0
        and isinstance(content["trace_id"], str)
    )
