"""How this server is and what it works with: what `/readyz` and `/metrics` say, in one answer.

REST and the page Health give it to everybody who is let in: it says nothing about a tenant, and reading it leaves no
event.
"""

import asyncio
import platform
from typing import Literal

from fastapi import Request
from pydantic import Field

from formulary_catalog import __version__
from formulary_catalog.domain.answers.catalog import Answer
from formulary_catalog.domain.moments import moment
from formulary_catalog.edges.calls.readiness import Readiness, ReadinessReport
from formulary_catalog.edges.http.concurrency import LANES
from formulary_catalog.edges.http.probes import CatalogSize
from formulary_catalog.errors import FormularyError
from formulary_catalog.metrics import Metrics
from formulary_catalog.operations.services import Services
from formulary_catalog.store.database.migrate import HEAD
from formulary_catalog.store.resyncs import FinishedResync, ResyncReader

_SECONDS = 1.0


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
