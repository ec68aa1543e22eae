"""How this server is: what kubelets and scrapers ask (DESIGN sections 8 and 12), and what it works with, in one answer.

REST and the page Health give that answer to everybody who is let in: it says nothing about a tenant, and reading it
leaves no event.
"""

import asyncio
import platform
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field

from formulary_catalog import __version__
from formulary_catalog.domain.answers.catalog import Answer
from formulary_catalog.domain.moments import moment
from formulary_catalog.edges.calls.readiness import Readiness, ReadinessReport
from formulary_catalog.edges.http.concurrency import LANES
from formulary_catalog.errors import FormularyError
from formulary_catalog.metrics import Metrics
from formulary_catalog.operations.services import Services
from formulary_catalog.runtime.listening import DATABASE_HEADER
from formulary_catalog.services.workflows.coverage import Coverage
from formulary_catalog.store.database.migrate import HEAD
from formulary_catalog.store.resyncs import FinishedResync, ResyncReader
from formulary_catalog.store.workflows.reader import WorkflowReader

_COUNT_SECONDS = 0.8
_COUNTED_FOR_SECONDS = 5.0
_COMPARED_FOR_SECONDS = 600.0
_NOTHING_FOR_SECONDS = 60.0
"""After so long it is looked again whether there are alerts now."""
_log = structlog.get_logger(__name__)

router = APIRouter(tags=["operations"])
_SECONDS = 1.0


class CatalogSize:
    """The size of the catalog, counted once for all scrapes of some seconds: anybody may scrape, however often."""

    def __init__(self, workflows: WorkflowReader) -> None:
        self._workflows = workflows
        self._counting: asyncio.Task[dict[str, int]] | None = None
        self._counted_at = 0.0

    async def by_status(self) -> dict[str, int]:
        """Workflow versions by status; empty while the database is away."""
        if self._counting is None or (self._counting.done() and self._is_old()):
            self._counting = asyncio.create_task(self._count())
        return await asyncio.shield(self._counting)

    def _is_old(self) -> bool:
        return time.monotonic() - self._counted_at > _COUNTED_FOR_SECONDS

    async def _count(self) -> dict[str, int]:
        try:
            async with asyncio.timeout(_COUNT_SECONDS):
                return await self._workflows.counts()
        except (FormularyError, TimeoutError):
            return {}
        finally:
            self._counted_at = time.monotonic()


class AlertStates:
    """How many alerts of the cluster are in each state: compared in the background, longer than a scrape may take."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._states: Mapping[str, int] = {}
        self._comparing: asyncio.Task[None] | None = None
        self._compared_at = 0.0

    def latest(self) -> Mapping[str, int]:
        """As they were compared last; empty until then, without alerts, and while the database is away."""
        if self._comparing is None or (self._comparing.done() and self._is_old()):
            self._comparing = asyncio.create_task(self._compare())
        return self._states

    async def stop(self) -> None:
        """Give up what is being compared."""
        if self._comparing is not None:
            self._comparing.cancel()
            with suppress(asyncio.CancelledError):
                await self._comparing

    def _is_old(self) -> bool:
        return time.monotonic() - self._compared_at > (_COMPARED_FOR_SECONDS if self._states else _NOTHING_FOR_SECONDS)

    async def _compare(self) -> None:
        try:
            self._states = await self._coverage.states_of_rules()
        except FormularyError as error:
            self._states = {}
            _log.warning("alerts_not_compared", reason=str(error))
        finally:
            self._compared_at = time.monotonic()


@router.get("/healthz", operation_id="health", summary="Check that the process runs")
async def healthz() -> dict[str, str]:
    """Whether the process runs. Checks nothing else."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    operation_id="readiness",
    summary="Check that calls can be answered",
    response_model=ReadinessReport,
    responses={503: {"model": ReadinessReport, "description": "Starting or broken: takes no calls."}},
)
async def readyz(request: Request) -> Response:
    """Whether calls can be answered, and how well."""
    readiness: Readiness = request.app.state.readiness
    services: Services = request.app.state.services
    report = await readiness.report(services)
    known = await readiness.id_of(services.parts.database) if report.database == "ok" else None
    return JSONResponse(
        report.model_dump(mode="json", exclude_none=True),
        status_code=200 if report.takes_calls else 503,
        headers={DATABASE_HEADER: known} if known else None,
    )


@router.get(
    "/metrics",
    operation_id="metrics",
    summary="Read the metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def prometheus(request: Request) -> Response:
    """Metrics in the Prometheus text format. Counts of the database are left out while it does not answer."""
    metrics: Metrics = request.app.state.metrics
    size: CatalogSize = request.app.state.catalog_size
    alerts: AlertStates = request.app.state.alert_states
    metrics.set_workflows(await size.by_status())
    metrics.set_alerts(alerts.latest())
    return Response(metrics.exposition(), headers={"content-type": CONTENT_TYPE_LATEST})


class ExecutionHealth(Answer):
    """Whether an operator is there that runs workflows."""

    state: Literal["ok", "silent", "none", "unknown"] = Field(
        description="silent: there was one; none: there never was; unknown: the database does not answer."
    )
    engines: list[str] = Field(description="What it runs them with.")


class RefusedSweep(Answer):
    """A removal that an operator refused: too many objects are missing from the cluster at once."""

    id: str
    missing: int = Field(description="Workflows that would have been removed.")
    served: int = Field(description="Workflows that are served.")
    next_step: str


class ResyncHealth(Answer):
    """How an operator last compared its cluster with the catalog."""

    operator: str = Field(description="Namespace and name of its Lease.")
    finished_at: str = Field(description="When it finished, RFC 3339.")
    overdue: bool = Field(description="Whether the next one should have finished long ago.")
    listed: int = Field(description="Objects of all kinds in the cluster.")
    differed: int = Field(description="Of these and of what is stored, those that differed and were queued.")
    refused_sweep: RefusedSweep | None = Field(description="null unless something is not removed.")


class LaneHealth(Answer):
    """Calls of one kind in this replica."""

    lane: str
    in_progress: int
    waiting: int


class ReplicaVersions(Answer):
    """What this replica is."""

    formulary: str
    schema_revision: str = Field(description="Revision of the database schema that it needs.")
    python: str


class HealthAnswer(Answer):
    """The state of this replica, of the catalog, and of what runs workflows."""

    readiness: ReadinessReport = Field(description="As /readyz has it.")
    workflows: dict[str, int] = Field(
        description="Versions of workflows by status; empty while the database does not answer."
    )
    execution: ExecutionHealth
    resyncs: list[ResyncHealth] | None = Field(
        description="One for each operator; empty if none is known, as an operator of an older release notes none; "
        "null while the database does not answer."
    )
    lanes: list[LaneHealth]
    versions: ReplicaVersions


async def health_of(request: Request) -> HealthAnswer:
    """The health now; it is there while the database is away, too."""
    readiness: Readiness = request.app.state.readiness
    size: CatalogSize = request.app.state.catalog_size
    metrics: Metrics = request.app.state.metrics
    services: Services = request.app.state.services
    report, workflows, execution, resyncs = await asyncio.gather(
        readiness.report(services), size.by_status(), _execution(services), _resyncs(services)
    )
    lanes = [(lane, *metrics.calls(lane)) for lane in LANES]
    return HealthAnswer(
        readiness=report,
        workflows=workflows,
        execution=execution,
        resyncs=resyncs,
        lanes=[LaneHealth(lane=lane, in_progress=in_work, waiting=waiting) for lane, in_work, waiting in lanes],
        versions=ReplicaVersions(formulary=__version__, schema_revision=HEAD, python=platform.python_version()),
    )


async def _execution(services: Services) -> ExecutionHealth:
    try:
        async with asyncio.timeout(_SECONDS):
            present = await services.runs.executors()
    except (FormularyError, TimeoutError):
        return ExecutionHealth(state="unknown", engines=[])
    state: Literal["ok", "silent", "none"] = "ok" if present.alive else "silent" if present.known else "none"
    return ExecutionHealth(state=state, engines=sorted(present.engines))


async def _resyncs(services: Services) -> list[ResyncHealth] | None:
    try:
        async with asyncio.timeout(_SECONDS):
            return [_resync(each) for each in await ResyncReader(services.parts.database).all()]
    except (FormularyError, TimeoutError):
        return None


def _resync(last: FinishedResync) -> ResyncHealth:
    sweep = None
    if last.sweep:
        sweep = RefusedSweep(
            id=last.sweep,
            missing=last.missing,
            served=last.served,
            next_step=f"if they were really deleted, run `formulary-operator sweep --allow {last.sweep}`",
        )
    return ResyncHealth(
        operator=last.operator,
        finished_at=moment(last.finished_at),
        overdue=last.overdue,
        listed=last.listed,
        differed=last.differed,
        refused_sweep=sweep,
    )
