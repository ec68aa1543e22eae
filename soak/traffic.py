"""What clients do: search, read, choose, again and again; every answer and every refusal is kept to be judged."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from soak.catalog import NAMES, QUESTIONS, Incident, Question

from support.wire import Reply, Wire

KINDS = frozenset({"search", "selection", "details"})
_THINKING_SECONDS = (0.02, 0.1)
_PAGE = 50
_PODS = 100_000
_INSIDE = ("traceback", "asyncpg", "pydantic", "sqlstate", "select ", "internal error", ".py")
_LOST = "the connection was lost"
_PATIENCE_SECONDS = 20.0
_UNANSWERED = f"no answer within {_PATIENCE_SECONDS:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that came to an end: what was asked for which incident, and when.

    `name` is that of the workflow that was asked for, `version` the one that was chosen.
    """

    kind: str
    incident: Incident
    since: float
    until: float
    name: str = ""
    version: str = ""
    question: Question | None = None

    @property
    def seconds(self) -> float:
        return self.until - self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What an answer holds. `total` is None where it is about one workflow."""

    call: Call
    versions: tuple[str, ...]
    total: int | None = None
    mode: str = ""
    search_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why a call was not answered, and what is wrong with how that was told, if anything."""

    call: Call
    message: str
    unclean: str

    @property
    def not_found(self) -> bool:
        return "is not found among the workflows allowed here" in self.message


@dataclass(slots=True)
class Tally:
    """All that came back."""

    answered: list[Answered] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


class Client:
    """One agent on one incident. What it asks follows from its number; when, from the server."""

    def __init__(self, number: int, *, incident: Incident, url: str, tally: Tally) -> None:
        self._chance = random.Random(number)
        self._incident = incident
        self._url = url
        self._tally = tally

    async def work(self, over: Callable[[], bool]) -> None:
        """Call after call, with a little thinking between them, until it is `over`."""
        async with Wire(self._url) as wire:
            while not over():
                found = await self._search(wire)
                if found is not None and found.versions and self._chance.random() < 0.4:
                    await self._select(wire, found)
                if self._chance.random() < 0.5:
                    await self._read(wire)
                await asyncio.sleep(self._chance.uniform(*_THINKING_SECONDS))

    async def _search(self, wire: Wire) -> Answered | None:
        question = self._chance.choice(QUESTIONS)
        new = f" in pod {self._chance.randrange(_PODS)}"  # else the server remembers the vector and asks no model
        text = question.text + (new if self._chance.random() < 0.5 else "")
        asked = {"query": text, "top_k": _PAGE, **question.arguments}
        if self._chance.random() < 0.5:
            sent = wire.tool("search_workflow_catalog", asked, headers=self._incident.headers)
        else:
            sent = wire.post("/api/v1/workflows/search", asked, headers=self._incident.headers)

        def kept(call: Call, answer: Mapping[str, Any]) -> Answered:
            return Answered(
                call=call,
                versions=tuple(hit["version_id"] for hit in answer["workflows"]),
                total=answer["total_results"],
                mode=answer["search_mode"],
                search_id=answer["search_id"],
            )

        return await self._ask("search", sent, kept=kept, question=question)

    async def _select(self, wire: Wire, found: Answered) -> None:
        chosen = self._chance.choice(found.versions)
        said = {"workflow_id": chosen, "reasoning": "it fits", "search_id": found.search_id, "confidence": "0.5"}
        sent = wire.tool("record_workflow_selection", said, headers=self._incident.headers)

        def kept(call: Call, answer: Mapping[str, Any]) -> Answered:
            return Answered(call=call, versions=(answer["version_id"],), search_id=answer["search_id"])

        await self._ask("selection", sent, kept=kept, version=chosen)

    async def _read(self, wire: Wire) -> None:
        name = self._chance.choice(NAMES)
        if self._chance.random() < 0.5:
            sent = wire.tool("get_workflow_details", {"workflow_id": name}, headers=self._incident.headers)
        else:
            sent = wire.get(f"/api/v1/workflows/{name}", headers=self._incident.headers)

        def kept(call: Call, answer: Mapping[str, Any]) -> Answered:
            return Answered(call=call, versions=(answer["version_id"],))

        await self._ask("details", sent, kept=kept, name=name)

    async def _ask(
        self,
        kind: str,
        sent: Awaitable[Reply],
        *,
        kept: Callable[[Call, Mapping[str, Any]], Answered],
        name: str = "",
        version: str = "",
        question: Question | None = None,
    ) -> Answered | None:
        since, answer, refusal = time.monotonic(), None, (_LOST, _LOST)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reply = await sent
        except TimeoutError:
            refusal = (_UNANSWERED, _UNANSWERED)
        except OSError:
            await asyncio.sleep(_THINKING_SECONDS[1])
        else:
            answer, refusal = _read_reply(reply)
        call = Call(
            kind=kind,
            incident=self._incident,
            since=since,
            until=time.monotonic(),
            name=name,
            version=version,
            question=question,
        )
        if answer is None:
            self._tally.refused.append(Refused(call=call, message=refusal[0], unclean=refusal[1]))
            return None
        answered = kept(call, answer)
        self._tally.answered.append(answered)
        return answered


def _read_reply(reply: Reply) -> tuple[Mapping[str, Any] | None, tuple[str, str]]:
    """The answer in a reply, or else the message of the refusal and what is wrong with it."""
    body = json.loads(reply.body)
    if "result" not in body:
        error = body.get("error")
        return (body, ("", "")) if error is None else (None, _judged(error["message"], status=reply.status))
    text = body["result"]["content"][0]["text"]
    if body["result"].get("isError"):
        return None, _judged(text, status=503 if reply.status == 200 else reply.status)
    return json.loads(text), ("", "")


def _judged(message: str, *, status: int) -> tuple[str, str]:
    if status not in (404, 408, 503):
        return message, f"HTTP {status}: {message}"
    # A status 404 says it to programs; a tool's error, which has none, is judged as one of 503.
    if (status != 404 and "retry" not in message.lower()) or "\n" in message:
        return message, f"does not say whether to retry: {message}"
    if any(word in message.lower() for word in _INSIDE):
        return message, f"tells of the inside: {message}"
    return message, ""
