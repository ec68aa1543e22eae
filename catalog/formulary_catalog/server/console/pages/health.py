"""Health: whether this server answers and how well, from the same sources as `/readyz` and `/metrics`.

It says nothing about a tenant, so that every visitor sees all of it and reading it leaves no event.
"""

import asyncio
import hashlib
import platform
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from formulary_catalog import __version__
from formulary_catalog.domain.answers import SearchMode
from formulary_catalog.errors import FormularyError
from formulary_catalog.metrics import Metrics
from formulary_catalog.server.calls.readiness import Readiness, ReadinessReport, Status
from formulary_catalog.server.console.route import ConsoleRoute
from formulary_catalog.server.console.templating import render
from formulary_catalog.server.http.concurrency import LANES
from formulary_catalog.server.http.errors import CONSOLE_PATH
from formulary_catalog.server.http.probes import CatalogSize
from formulary_catalog.server.rest.calls import services_of
from formulary_catalog.store.database.migrate import HEAD
from formulary_catalog.store.runs.executors import SILENT_SECONDS, ExecutorReader, Executors

_SECONDS = 1.0
_STATES = {
    Status.READY: ("good", "It answers calls."),
    Status.DEGRADED: ("waiting", "It answers calls, but does not rank by meaning."),
    Status.STARTING: ("waiting", "It answers no calls yet."),
    Status.BROKEN: ("bad", "It answers no calls."),
}

router = APIRouter(route_class=ConsoleRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A part of the server and how it is; `tone` as a badge has it, `note` says more."""

    name: str
    state: str
    tone: str = "plain"
    note: str = ""


@router.get(f"{CONSOLE_PATH}/health")
async def health(request: Request) -> Response:
    """The state of this replica, of the catalog and of what runs workflows."""
    return render(request, "health.html", title="Health", versions=_versions(), **await _now(request))


@router.get(f"{CONSOLE_PATH}/health/now")
async def health_now(request: Request) -> Response:
    """The part of the page that changes; nothing where it is what the page shows."""
    now = await _now(request)
    if request.query_params.get("shown") == now["shown"]:
        return Response(status_code=204)
    return render(request, "health_now.html", **now)


async def _now(request: Request) -> dict[str, Any]:
    readiness: Readiness = request.app.state.readiness
    size: CatalogSize = request.app.state.catalog_size
    report, workflows, executors = await asyncio.gather(
        readiness.report(services_of(request)), size.by_status(), _executors(request)
    )
    tone, meaning = _STATES[report.status]
    facts = {
        "report": report,
        "tone": tone,
        "meaning": meaning,
        "parts": [*_parts(report), _execution(executors)],
        "workflows": workflows,
        "lanes": _lanes(request.app.state.metrics),
    }
    return {**facts, "shown": hashlib.sha256(repr((facts, request.state.halts)).encode()).hexdigest()}


def _versions() -> dict[str, str]:
    return {"Formulary": __version__, "Schema of the database": HEAD, "Python": platform.python_version()}


def _parts(report: ReadinessReport) -> list[_Line]:
    by_meaning = report.mode == SearchMode.HYBRID
    parts = [
        _Line(name="Database", state=report.database, tone="good" if report.database == "ok" else "bad"),
        _Line(name="Catalog", state=report.catalog, tone="good" if report.catalog == "loaded" else "waiting"),
        _Line(
            name="Embedding model",
            state=report.model,
            tone="good" if by_meaning else "bad",
            note="Searches rank by meaning and words." if by_meaning else "Searches rank by words alone.",
        ),
    ]
    if report.reembedding is not None:
        parts.append(_Line(name="Next model", state="being prepared", tone="waiting", note=report.reembedding))
    if report.callers is not None:
        checked = report.callers == "ok"
        parts.append(_Line(name="Callers", state=report.callers, tone="good" if checked else "bad"))
    return parts


def _execution(executors: Executors | None) -> _Line:
    if executors is None:
        return _Line(name="Runs", state="not known", note="The database does not answer.")
    if executors.alive:
        engines = ", ".join(sorted(executors.engines))
        return _Line(name="Runs", state="ok", tone="good", note=f"An operator is there, with engines: {engines}.")
    silent = f"No operator has reported for {SILENT_SECONDS:g} seconds: nothing runs. Look at its Deployment."
    none = "There has never been an operator: workflows are found, and nothing here runs them."
    return _Line(
        name="Runs",
        state="no operator",
        tone="bad" if executors.known else "plain",
        note=silent if executors.known else none,
    )


async def _executors(request: Request) -> Executors | None:
    try:
        async with asyncio.timeout(_SECONDS):
            return await ExecutorReader(services_of(request).parts.database).present()
    except (FormularyError, TimeoutError):
        return None


def _lanes(metrics: Metrics) -> list[tuple[str, int, int]]:
    """Calls of each lane in work and waiting."""
    return [(lane, *metrics.calls(lane)) for lane in LANES]
