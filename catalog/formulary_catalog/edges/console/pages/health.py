"""Health: whether this server answers and how well, in words; `GET /api/v1/health` has the same as numbers."""

import hashlib
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from formulary_catalog.domain.answers.catalog import SearchMode
from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.domain.targets.mapping import ContextMapping
from formulary_catalog.domain.workflows.labels import wire_name
from formulary_catalog.edges.calls.readiness import ReadinessReport, ReadinessState
from formulary_catalog.edges.console.route import ConsoleRoute
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.http.health import ExecutionHealth, health_of
from formulary_catalog.store.runs.executors import SILENT_SECONDS

_STATES = {
    ReadinessState.READY: ("good", "It answers calls."),
    ReadinessState.DEGRADED: ("waiting", "It answers calls, but does not rank by meaning."),
    ReadinessState.STARTING: ("waiting", "It answers no calls yet."),
    ReadinessState.BROKEN: ("bad", "It answers no calls."),
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
    targets = request.app.state.services.parts.targets
    mapped = _mapped(targets.mapping) if targets.are_read else []
    return render(request, "health.html", title="Health", mapped=mapped, **await _now(request))


@router.get(f"{CONSOLE_PATH}/health/now")
async def health_now(request: Request) -> Response:
    """The part of the page that changes; where it is what the page shows, the times alone, and nothing moves."""
    now = await _now(request)
    if request.query_params.get("shown") == now["shown"]:
        return render(request, "health_same.html", **now)
    return render(request, "health_changed.html", **now)


async def _now(request: Request) -> dict[str, Any]:
    health = await health_of(request)
    tone, meaning = _STATES[health.readiness.status]
    lasting = health.model_dump(exclude={"resyncs": {"__all__": {"finished_at"}}})
    return {
        "health": health,
        "tone": tone,
        "meaning": meaning,
        "parts": [*_parts(health.readiness), _execution(health.execution)],
        "shown": hashlib.sha256(repr((lasting, request.state.halts)).encode()).hexdigest(),
    }


def _mapped(mapping: ContextMapping) -> list[tuple[str, str, bool]]:
    """Each constraint with the labels that give it, and whether a namespace must have one. For people, not agents."""
    given = [(wire_name(name), each.labels, each.required) for name, each in mapping.dimensions.items()]
    custom = mapping.custom_labels
    given.append(("custom label KEY", [f"{custom.prefix}KEY"], False))
    given += [(f"custom label {key}", each.labels, False) for key, each in custom.named.items()]
    return [(name, ", ".join(labels), required) for name, labels, required in given]


def _parts(report: ReadinessReport) -> list[_Line]:
    by_meaning = report.mode == SearchMode.HYBRID
    parts = [
        _Line(name="Database", state=report.database, tone="good" if report.database == "ok" else "bad"),
        _Line(name="Catalog", state=report.catalog, tone="good" if report.catalog == "loaded" else "waiting"),
        _Line(
            name="Embedding model",
            state=report.model,
            tone="good" if by_meaning else "bad",
            note="Searches rank by meaning and words." if by_meaning else "Searches rank by words only.",
        ),
    ]
    if report.callers is not None:
        checked = report.callers == "ok"
        parts.append(_Line(name="Callers", state=report.callers, tone="good" if checked else "bad"))
    return parts


def _execution(execution: ExecutionHealth) -> _Line:
    match execution.state:
        case "ok":
            engines = ", ".join(execution.engines)
            return _Line(name="Runs", state="ok", tone="good", note=f"Operator connected, with engines: {engines}.")
        case "silent":
            silent = f"No operator has reported for {SILENT_SECONDS:g} seconds: nothing runs. Look at its Deployment."
            return _Line(name="Runs", state="no operator", tone="bad", note=silent)
        case "none":
            none = "No operator connected: search works, runs are disabled."
            return _Line(name="Runs", state="no operator", note=none)
        case "unknown":
            return _Line(name="Runs", state="not known", note="The database does not answer.")
