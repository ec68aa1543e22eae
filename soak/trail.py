"""Whether the audit trail holds every answer, and nothing of it was bent."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import asyncpg
from soak.traffic import Answered

from support.process import FORMULARY


@dataclass(slots=True)
class Recorded:
    """What the trail says was answered."""

    searches: dict[str, frozenset[str]] = field(default_factory=dict)
    selections: Counter[tuple[str, str]] = field(default_factory=Counter)
    details: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: int = 0

    def add(self, *, trace_id: str, kind: str, search_id: str, payload: dict[str, Any]) -> None:
        """One event."""
        self.events += 1
        if payload["outcome"] != "ok":
            return
        result = payload["result"]
        if kind == "search":
            returned = (hit["version_id"] for hit in result["candidates"] if hit["returned"])
            self.searches[search_id] = frozenset(returned)
        elif kind == "selection":
            self.selections[search_id, result["version_id"]] += 1
        else:
            self.details[trace_id, result["version_id"]] += 1

    def lost(self, answered: Iterable[Answered]) -> list[str]:
        """The answers that are not in the trail as they were given."""
        lost, selections, details = list[str](), self.selections.copy(), self.details.copy()
        for answer in answered:
            match answer.call.kind:
                case "search":
                    kept = self.searches.get(answer.search_id) == frozenset(answer.versions)
                case "selection":
                    kept = _taken(selections, (answer.search_id, *answer.versions))
                case _:
                    kept = _taken(details, (answer.call.incident.context.remediation_id, *answer.versions))
            if not kept:
                lost.append(f"{answer.call.kind} {answer.search_id} {answer.versions}")
        return lost


def _taken(counted: Counter[Any], key: Any) -> bool:
    counted[key] -= 1
    return counted[key] >= 0


async def recorded(dsn: str) -> Recorded:
    """The whole trail, read as its owner."""
    found = Recorded()
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            rows = connection.cursor("select trace_id, kind, search_id::text, body from formulary.trace_event")
            async for row in rows:
                payload = json.loads(row["body"])["payload"]
                found.add(trace_id=row["trace_id"], kind=row["kind"], search_id=row["search_id"], payload=payload)
    finally:
        await connection.close()
    return found


def finding(dsn: str) -> str:
    """What verifying the whole trail finds; empty if it is as it was written."""
    verified = subprocess.run(
        [FORMULARY, "trace", "verify", "--database-url", dsn], capture_output=True, text=True, timeout=600
    )
    return "" if verified.returncode == 0 else f"exit code {verified.returncode}: {verified.stdout}{verified.stderr}"
