"""What every tool, and every method of the protocol that reads, says of one catalog, without what is left to chance."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from mcp import Client, MCPError
from mcp.server.lowlevel import Server
from pydantic import BaseModel
from starlette.datastructures import Headers

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.analytics.answers import QueryAnswer, TableStatistics
from formulary_catalog.domain.answers.catalog import Answer, InvocationAnswer
from formulary_catalog.domain.answers.shortening import compact
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.run import NewInvocation
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.edges.calls.incident import ANALYSIS_HEADER
from formulary_catalog.edges.calls.opening import Opening
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.edges.mcp.server import mcp_server
from formulary_catalog.edges.mcp.tools import TOOLS_BY_NAME, CatalogTool
from formulary_catalog.errors import FormularyError, Unavailable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.metrics import Metrics
from formulary_catalog.operations.operation import Call
from formulary_catalog.operations.services import Services
from formulary_catalog.settings import Settings
from formulary_catalog.store.analytics.sessions import ROLE
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.submission import InvocationStore
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import runs
from support.databases import as_user

LIST_SKILLS, GET_SKILL = "skills/list", "skills/get"
LIST_RESOURCES, LIST_TEMPLATES, READ_RESOURCE = "resources/list", "resources/templates/list", "resources/read"
LIST_PROMPTS, GET_PROMPT = "prompts/list", "prompts/get"
METHODS = {LIST_SKILLS, GET_SKILL, LIST_RESOURCES, LIST_TEMPLATES, READ_RESOURCE, LIST_PROMPTS, GET_PROMPT}
"""Methods of the protocol, which no tool answers."""
STATUS, OWN_RUN, FOREIGN_RUN = "get_invocation_status", "own", "foreign"
"""Runs have other ids in each database: the last one that was asked for, and one of a namespace that is not seen."""
NO_RUN = "inv-00000000000000000000"
TIMES = re.compile(
    r'("(?:time_ms|indexed_at|last_indexed|asked_at|waits_until|created_at|started_at|finished_at|search_id)":)'
    r'("[^"]*"|\d+)|(inv-|tr_)[0-9a-f]+'
)
CHANCE = (
    "at",
    "created_at",
    "changed_at",
    "started_at",
    "finished_at",
    "gone_at",
    "duration_ms",
    "duration_seconds",
    "waited_seconds",
    "run_id",
    "search_id",
)
"""Columns of `insight` that differ from one database to the other."""


def protocol(opening: Opening, *, analysis: str, caller: Caller) -> Server[Any]:
    """The MCP server for the calls of one caller under one incident."""
    return mcp_server(
        opening=opening,
        settings=Settings(),
        readiness=Readiness(),
        metrics=Metrics(),
        caller_of=lambda _: caller,
        own_headers=Headers({ANALYSIS_HEADER: analysis}),
    )


class Catalog:
    """One database and the services on it."""

    def __init__(self, parts: CatalogParts, writing: Database, *, dsn: str) -> None:
        settings = Settings(analytics_database_url=as_user(dsn, ROLE), analytics_per_minute=1000)
        self.services = Services.on(parts, settings=settings)
        self._writing = writing
        self._workflows, self._contexts = CatalogWriter(writing), ContextWriter(writing)
        self._runs = InvocationStore(writing, shared_namespace="formulary")
        self._approvals = ApprovalStore(writing)
        self._named_runs: dict[str, str] = {}

    async def load(self, entries: list[CatalogEntry], *, served: set[str], incident: RequestContext) -> None:
        """The versions, of which all but the served ones are history; of each an outcome, and a run that waits for an
        approval and was rejected."""
        self._named_runs.clear()
        for each in sorted(entries, key=lambda one: one.version_id in served):
            await self._workflows.apply(each, superseded=each.version_id not in served)
            submitted = await self._runs.submit(_waiting(each))
            if each.namespace.startswith("c"):
                self._named_runs[FOREIGN_RUN] = submitted.invocation.id
            await self._approvals.add(
                NewApproval(
                    invocation_id=submitted.invocation.id,
                    namespace=each.namespace,
                    decision="Reject",
                    approver="boss",
                    reason="not now",
                )
            )
            await self._writing.execute(
                "insert into workflow_outcome (version_id, succeeded, failed, median_seconds, helped, verified) "
                "values ($1, 3, 1, 42, 6, 8)",
                each.version_id,
            )
        await self._contexts.save(incident)

    async def answer(self, name: str, arguments: Mapping[str, Any], *, incident: RequestContext, caller: Caller) -> str:
        """What a tool or a method says, without what is another with every call."""
        analysis = f"{incident.namespace}/{incident.name}"
        try:
            if name in METHODS:
                said = await self._read(name, arguments, analysis=analysis, caller=caller)
            else:
                context = ContextReference(analysis=analysis)
                said = await self._answer(TOOLS_BY_NAME[name], arguments, context=context, caller=caller)
        except Unavailable:
            raise
        except FormularyError as error:
            said = f"{type(error).__name__}: {error}"
        return TIMES.sub(r"\1", said)

    async def _answer(
        self, tool: CatalogTool, arguments: Mapping[str, Any], *, context: ContextReference, caller: Caller
    ) -> str:
        if tool.name == STATUS:
            arguments = {"invocation_id": self._named_runs.get(arguments["invocation_id"], NO_RUN)}
        read = tool.arguments.read(arguments)
        call = Call(services=self.services, arguments=read, context=context, caller=caller)
        answer = await tool.operation.run(call)
        if isinstance(answer, InvocationAnswer):
            self._named_runs[OWN_RUN] = answer.invocation_id
        return compact(tool.spec.shrink(_without_chance(answer).as_json()))

    async def _read(self, method: str, arguments: Mapping[str, Any], *, analysis: str, caller: Caller) -> str:
        context, skills = ContextReference(analysis=analysis), self.services.skills
        if method == LIST_SKILLS:
            return str(await skills.listed(context=context, caller=caller))
        if method == GET_SKILL:
            return str(await skills.read(arguments["uri"], context=context, caller=caller))
        server = protocol(Opening(self.services), analysis=analysis, caller=caller)
        async with Client(server, cache=None) as client:
            asked: dict[str, Callable[[], Awaitable[BaseModel]]] = {
                LIST_RESOURCES: client.list_resources,
                LIST_TEMPLATES: client.list_resource_templates,
                READ_RESOURCE: lambda: client.read_resource(arguments["uri"]),
                LIST_PROMPTS: client.list_prompts,
                GET_PROMPT: lambda: client.get_prompt("remediate", dict(arguments)),
            }
            try:
                return (await asked[method]()).model_dump_json()
            except MCPError as error:
                return f"{error.error}"


def _without_chance(answer: Answer) -> Answer:
    """Rows of `insight` in an order of their own, without what differs from one database to the other."""
    if isinstance(answer, TableStatistics):
        numbers = {"min", "max", "mean", "stddev", "p50", "p95"}
        columns = [
            each.model_copy(update=dict.fromkeys(numbers if each.name in CHANCE else ())) for each in answer.columns
        ]
        return answer.model_copy(update={"columns": columns})
    if isinstance(answer, QueryAnswer) and not set(CHANCE).isdisjoint(answer.columns):
        kept = ({name: cell for name, cell in row.items() if name not in CHANCE} for row in answer.data)
        return answer.model_copy(update={"data": sorted(kept, key=str)})
    return answer


def _waiting(each: CatalogEntry) -> NewInvocation:
    """A request for a run in the namespace of the workflow, for production: a person has to approve it."""
    facts = replace(
        runs.HARMLESS,
        workflow_name=each.name,
        workflow_namespace=each.namespace,
        namespace=each.namespace,
        risk_level="high",
        environment="production",
    )
    return runs.request(
        facts=facts,
        namespace=each.namespace,
        workflow_namespace=each.namespace,
        workflow_name=each.name,
        workflow_version=each.version,
        version_id=each.version_id,
        document=each.document,
    )
