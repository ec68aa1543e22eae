"""An operation: one question of callers, said once for MCP, REST, the console and the commands (DESIGN section 2).

The other modules of this package list the operations of a subject. `server.rest.operation_routes` makes their routes
and OpenAPI; commands ask them over HTTP, or the services of a database of their own (`cli.catalog.catalogs`).
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.catalog import Answer
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.operations.arguments.base import Arguments

if TYPE_CHECKING:  # `stdio` answers `initialize` before it loads them
    from formulary_catalog.operations.services import Services

A = TypeVar("A", bound=Arguments)
R = TypeVar("R", bound=Answer)
_IN_PATH = re.compile(r"{(\w+)(?::path)?}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[A]):
    """One call, its arguments checked. People and programs are `browsing`; a model is not."""

    services: "Services"
    arguments: A
    context: ContextReference
    caller: Caller
    browsing: bool = False


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

    def address(self, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The path of a call with these arguments, and the arguments that are no part of it."""
        path = _IN_PATH.sub(lambda match: _quoted(str(given[match[1]])), self.path)
        return path, {name: value for name, value in given.items() if name not in self.in_path}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[A, R]):
    """What is asked, and what answers it. `action` is its name in the audit trail.

    An operation that is `of_incident` answers under the constraints of the incident that the call names.
    """

    action: str
    arguments: type[A]
    answer: type[R]
    run: Callable[[Call[A]], Awaitable[R]]
    route: Route
    of_incident: bool = True


def _quoted(value: str) -> str:
    """Names keep their slashes; of two in a row proxies make one."""
    return quote(value, safe="/@").replace("//", "%2F%2F")
