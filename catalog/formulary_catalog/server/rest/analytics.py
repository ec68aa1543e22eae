"""Analytics over HTTP: the same answers as the tools, whole, for programs and for `formulary query`."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from formulary_catalog.analytics.service import WHOLE_BYTES
from formulary_catalog.domain.analytics.answers import QueryAnswer, TableList, TableSchema, TableStatistics
from formulary_catalog.operations.arguments.analytics import (
    QueryArguments,
    SampleArguments,
    TableArguments,
    TablesArguments,
)
from formulary_catalog.server.calls.caller import caller_of
from formulary_catalog.server.rest.calls import PREFIX, Guarded, answered, checked_call, object_body, services_of
from formulary_catalog.server.rest.openapi import body_schema, error_responses, operation, query_parameters

router = APIRouter(prefix=f"{PREFIX}/analytics", route_class=Guarded, tags=["analytics"])
Table = Annotated[str, Path(description="Name of a table of `insight`, with or without the schema.")]


@router.post(
    "/query",
    operation_id="execute_query",
    summary="Run one SELECT",
    response_model=QueryAnswer,
    responses=error_responses(413, 415, 429),
    openapi_extra=operation(
        body=body_schema(QueryArguments), example={"sql": "SELECT workflow, failed FROM insight.outcomes"}
    ),
)
async def execute_query(request: Request) -> Response:
    """The rows of one SELECT over the tables of `insight`."""
    context, asked = await checked_call(request, "read.query", QueryArguments, given=await object_body(request))
    return answered(
        await services_of(request).analytics.execute_query(
            context=context, caller=caller_of(request), browsing=True, max_bytes=WHOLE_BYTES, **dict(asked)
        )
    )


@router.get(
    "/tables",
    operation_id="list_tables",
    summary="List the tables",
    response_model=TableList,
    responses=error_responses(429),
    openapi_extra=operation(),
)
async def list_tables(request: Request) -> Response:
    """The tables, what they hold, and how many rows of each are visible."""
    context, _ = await checked_call(request, "read.tables", TablesArguments)
    return answered(
        await services_of(request).analytics.list_tables(context=context, caller=caller_of(request), browsing=True)
    )


@router.get(
    "/tables/{table}",
    operation_id="get_schema",
    summary="List the columns of a table",
    response_model=TableSchema,
    responses=error_responses(429),
    openapi_extra=operation(),
)
async def get_schema(request: Request, table: Table) -> Response:
    """The columns of one table."""
    context, asked = await checked_call(request, "read.columns", TableArguments)
    return answered(
        await services_of(request).analytics.get_schema(
            context=context, caller=caller_of(request), browsing=True, **dict(asked)
        )
    )


@router.get(
    "/tables/{table}/sample",
    operation_id="get_sample",
    summary="Read some rows of a table",
    response_model=QueryAnswer,
    responses=error_responses(429),
    openapi_extra=operation(query=query_parameters(SampleArguments, in_path=("table",))),
)
async def get_sample(request: Request, table: Table) -> Response:
    """Some rows of one table."""
    context, asked = await checked_call(request, "read.sample", SampleArguments)
    return answered(
        await services_of(request).analytics.get_sample(
            context=context, caller=caller_of(request), browsing=True, max_bytes=WHOLE_BYTES, **dict(asked)
        )
    )


@router.get(
    "/tables/{table}/statistics",
    operation_id="describe_stats",
    summary="Read statistics of a table",
    response_model=TableStatistics,
    responses=error_responses(429),
    openapi_extra=operation(),
)
async def describe_stats(request: Request, table: Table) -> Response:
    """Statistics of the columns of one table, over the rows that are visible."""
    context, asked = await checked_call(request, "read.column_statistics", TableArguments)
    return answered(
        await services_of(request).analytics.describe_stats(
            context=context, caller=caller_of(request), browsing=True, **dict(asked)
        )
    )
