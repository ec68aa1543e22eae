"""What kubelets and scrapers ask: health, readiness and metrics (DESIGN sections 8 and 12)."""

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from formulary_catalog.errors import FormularyError
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.service import CatalogService
from formulary_catalog.server.readiness import Readiness, ReadinessReport

_COUNT_SECONDS = 0.8

router = APIRouter(tags=["operations"])


@router.get("/healthz", operation_id="health")
async def healthz() -> dict[str, str]:
    """Whether the process runs; nothing else is looked at."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    operation_id="readiness",
    response_model=ReadinessReport,
    responses={503: {"model": ReadinessReport, "description": "Starting or broken: takes no calls."}},
)
async def readyz(request: Request) -> Response:
    """Whether calls can be answered, and how well."""
    readiness: Readiness = request.app.state.readiness
    report = await readiness.report(request.app.state.service)
    return JSONResponse(
        report.model_dump(mode="json", exclude_none=True), status_code=200 if report.takes_calls else 503
    )


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def prometheus(request: Request) -> Response:
    """Metrics in the Prometheus text format; the size of the catalog is left out while the database is away."""
    metrics: Metrics = request.app.state.metrics
    service: CatalogService = request.app.state.service
    try:
        async with asyncio.timeout(_COUNT_SECONDS):
            metrics.set_workflows(await service.counts())
    except (FormularyError, TimeoutError):
        metrics.set_workflows({})
    return Response(metrics.exposition(), headers={"content-type": CONTENT_TYPE_LATEST})
