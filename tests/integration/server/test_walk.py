"""A call is read downwards, from its route to the statement: `pytest -s` of this file prints the way.

Imports say what a layer may name. That a lower layer calls back into a higher one shows only while the code runs.
Threads that run already are not seen, and a task begins a way of its own.
"""

import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import httpx2
import pytest

import formulary_catalog
from formulary_catalog.edges.app import create_app
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.embedding import Embedder
from formulary_catalog.settings import Settings
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.serving import catalog

PACKAGE = str(Path(formulary_catalog.__file__).parent) + "/"
STARTER = Path(__file__).parents[3] / "catalog" / "workflows"
HEIGHTS = {
    **dict.fromkeys(("errors.py", "settings.py", "metrics.py", "log.py", "__init__.py"), 0),
    "domain": 1,
    **dict.fromkeys(("store", "embedding", "listening"), 2),
    "kernel": 3,
    "services": 4,
    "loading": 5,
    "operations": 6,
    "runtime": 7,
    "edges": 8,
}
"""The layers of pyproject.toml."""
STATEMENT = "store/database/connection.py"
WRAPPERS = ("edges/http/", "edges/app.py", "edges/rest/calls.py", "edges/rest/guarded.py", "edges/calls/failures.py")
"""What every request passes, whatever it asks."""


@dataclass
class Walk:
    """The modules that ran, calls from a layer to a higher one, and the functions above each statement."""

    modules: set[str] = field(default_factory=set)
    climbs: set[str] = field(default_factory=set)
    ways: list[list[str]] = field(default_factory=list)

    def enter(self, frame: FrameType, event: str, _argument: object) -> None:
        """For `sys.setprofile`."""
        if event != "call" or not (module := _module_of(frame)):
            return
        self.modules.add(module)
        stack = [*_stack_above(frame)]
        if stack and _height(stack[0]) < _height(frame):
            self.climbs.add(f"{_place_of(stack[0])} calls {_place_of(frame)}")
        if module == STATEMENT and all(_module_of(above) != STATEMENT for above in stack):
            self.ways.append([_place_of(above) for above in stack if not _module_of(above).startswith(WRAPPERS)])


def _module_of(frame: FrameType) -> str:
    """The file of a function below the package; empty for those of others."""
    file = frame.f_code.co_filename
    return file.removeprefix(PACKAGE) if file.startswith(PACKAGE) else ""


def _place_of(frame: FrameType) -> str:
    return f"{_module_of(frame)}:{frame.f_code.co_name}"


def _height(frame: FrameType) -> int:
    return HEIGHTS[_module_of(frame).partition("/")[0]]


def _stack_above(frame: FrameType) -> Iterator[FrameType]:
    """Its callers in the package, the nearest first."""
    above = frame.f_back
    while above is not None:
        if _module_of(above):
            yield above
        above = above.f_back


@contextmanager
def walked() -> Iterator[Walk]:
    """What runs meanwhile, in this thread and those that begin."""
    walk = Walk()
    threading.setprofile(walk.enter)
    sys.setprofile(walk.enter)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture(scope="module")
async def client(postgres: EmbeddedPostgres, embedder: Embedder) -> AsyncIterator[httpx2.AsyncClient]:
    async with catalog([STARTER], postgres=postgres, embedder=embedder) as parts:
        app = create_app(parts, settings=Settings(), readiness=Readiness(), authenticator=None)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as found:
            yield found


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("POST", "/api/v1/workflows/search", {"query": "OOMKilled high jvm heap"}, id="search"),
        pytest.param("GET", "/api/v1/workflows/oom-right-size-jvm-heap", None, id="details"),
        pytest.param("GET", "/api/v1/workflows", None, id="list"),
        pytest.param("GET", "/api/v1/traces", None, id="traces"),
    ],
)
async def test_a_question_goes_down_from_its_route_to_its_statement(
    client: httpx2.AsyncClient, method: str, path: str, body: dict[str, Any] | None
) -> None:
    await client.request(method, path, json=body)  # what is read once is read

    with walked() as walk:
        answer = await client.request(method, path, json=body)

    assert answer.status_code == 200, answer.text
    assert walk.ways, "it reached no statement"
    longest = max(walk.ways, key=len)
    print(f"\n{len(walk.modules)} modules; the longest way to a statement:", *reversed(longest), sep="\n  ")
    assert walk.climbs == set()
    assert len(longest) <= 7
