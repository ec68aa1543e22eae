"""An operation: one question of callers, said once for MCP, REST and what commands read (DESIGN section 2).

The other modules of this package list the operations of a subject. `edges.mcp.tools` lists their tools,
`edges.rest.routes` makes their routes and OpenAPI. Commands ask at these routes: of a server, or of
`edges.rest.endpoints` on a database.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.answer_size import allowance
from formulary_catalog.domain.answers.catalog import Answer
from formulary_catalog.domain.answers.shortening import Json
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.operations.arguments.base import Arguments
from formulary_catalog.operations.arguments.target import Targeted
from formulary_catalog.services.runs.waiting import Progress, no_progress
from formulary_catalog.settings import Toolset

if TYPE_CHECKING:  # `stdio` answers `initialize` before it loads them
    from formulary_catalog.operations.services import Services

A = TypeVar("A", bound=Arguments)
R = TypeVar("R", bound=Answer)
CALL_SECONDS = 15.0
"""Deadline of one call; a search waits at most two seconds for its context, so this is only met when all is stuck."""
_IN_PATH = re.compile(r"{(\w+)(:path)?}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[A]):
    """One call, its arguments checked. People and programs are `browsing`; a model is not."""

    services: "Services"
    arguments: A
    context: ContextReference
    caller: Caller
    browsing: bool = False
    progress: Progress = no_progress
    """Reaches the caller where the transport carries it."""

    @property
    def asker(self) -> dict[str, Any]:
        """Who asks, and for which incident, as services take it."""
        return {"context": self.context, "caller": self.caller, "browsing": self.browsing}

    def room(self, entries: int | None) -> int | None:
        """Bytes of an answer with so many entries, for who reads it at once; None for people and programs."""
        return None if self.browsing else allowance(entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where an operation is under `/api/v1`, and what its documentation says.

    `errors` are the statuses beside those that any call may meet, `in_path` describes the arguments that are parts of
    the path, `example` is a body.
    """

    path: str
    id: str
    tag: str
    summary: str
    description: str
    method: str = "GET"
    errors: tuple[int, ...] = ()
    in_path: Mapping[str, str] = field(default_factory=dict)
    example: Any = None

    @property
    def has_body(self) -> bool:
        """Whether its arguments are the body; else they are in path and query string."""
        return self.method == "POST"

    @property
    def takes_all(self) -> bool:
        """Whether its path is the beginning of others, which have to come before it."""
        return self.path.endswith(":path}")

    def address(self, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The path of a call with these arguments, and the arguments that are no part of it."""
        path = _IN_PATH.sub(lambda match: _quoted(str(given[match[1]]), whole=bool(match[2])), self.path)
        return path, {name: value for name, value in given.items() if name not in self.in_path}


def as_it_is(answer: Json) -> Json:
    """An answer that needs no shrinking."""
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What a model reads of an operation, and what it gets.

    `shrink` makes an answer fit what a model can read. `seconds` is the deadline of a call that may wait; `unlisted`
    arguments are taken, and not shown: a call that is refused for want of a target learns the names of its parts. A
    tool that is not `read_only` may be `destructive`. `narrowed_by` names optional arguments of its second example,
    `begun_by` those of both. `arguments` and `answer` are those of the operation, unless a model has fewer.
    """

    name: str
    toolset: Toolset
    title: str
    description: str
    arguments: type[Arguments] | None = None
    answer: type[Answer] | None = None
    shrink: Callable[[Json], Json]
    read_only: bool = True
    destructive: bool = False
    seconds: float | None = None
    begun_by: tuple[str, ...] = ()
    narrowed_by: tuple[str, ...] = ()
    unlisted: Collection[str] = tuple(Targeted.model_fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[A, R]):
    """What is asked, and what answers it. `action` is its name in the audit trail.

    It is called as a tool, at a route, or both. One that is not `of_incident` is for people, who see all that they have
    a right to: its `run` looks at no incident, its route documents none, and no tool may have it.
    """

    action: str
    arguments: type[A]
    answer: type[R]
    run: Callable[[Call[A]], Awaitable[R]]
    tool: Tool | None = None
    route: Route | None = None
    of_incident: bool = True

    def __post_init__(self) -> None:
        if self.tool is not None and not self.of_incident:
            raise ValueError(f"{self.tool.name}: a model only asks under the constraints of its incident")


def _quoted(value: str, *, whole: bool) -> str:
    """A value as part of a path. What takes all of a path keeps its slashes, unless a client or proxy resolves them."""
    resolved = not whole or {"", ".", ".."} & set(value.split("/"))
    return "%2E" * len(value) if value in (".", "..") else quote(value, safe="" if resolved else "/@")
