"""Resources and skills over MCP (DESIGN section 7): a workflow, or a section of it, by its address.

`edges/mcp/server` registers the handlers. Each is a presentation of a service, under the constraints of the incident;
none has rules of its own.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import unquote

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from formulary_catalog.domain.answers.catalog import WorkflowSummary
from formulary_catalog.domain.answers.shortening import Json
from formulary_catalog.domain.workflows.identity import URI_SCHEME
from formulary_catalog.domain.workflows.requests import ListingRequest
from formulary_catalog.domain.workflows.sections import SECTIONS
from formulary_catalog.domain.workflows.skill import GUIDE
from formulary_catalog.edges.calls.failures import failure_of, within_deadline
from formulary_catalog.edges.mcp.requests import CheckedRequest, McpContext, McpRequests
from formulary_catalog.edges.mcp.skills import (
    GetSkillParams,
    ListSkillsParams,
    check_cursor,
    entry,
    is_skill,
    listing,
    skill_contents,
    skill_resource,
)
from formulary_catalog.errors import ContextError, InvalidInput, NotFound
from formulary_catalog.operations.json_text import shown

MIME_TYPE = "application/json"
TEMPLATES = (
    ResourceTemplate(
        uri_template="workflow://{namespace}/{name}",
        name="workflow",
        title="Workflow",
        description="The latest active version of a workflow, in full.",
        mime_type=MIME_TYPE,
    ),
    ResourceTemplate(
        uri_template="workflow://{namespace}/{name}@{version}",
        name="workflow_version",
        title="Workflow version",
        description="One version of a workflow, in full.",
        mime_type=MIME_TYPE,
    ),
    ResourceTemplate(
        uri_template="workflow://{namespace}/{name}#{section}",
        name="workflow_section",
        title="Section of a workflow",
        description=f"One section of a workflow: {', '.join(SECTIONS)}.",
        mime_type=MIME_TYPE,
    ),
)
_PAGE = 50
_LIST, _DETAILS = "list", "details"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ResourceName:
    """What an address names: a workflow in any form of its name, and a section of it; empty for all of it."""

    workflow: str
    section: str = ""


def named(uri: str) -> ResourceName:
    """What `workflow://namespace/name`, `…@version` and `…#section` name.

    Raises:
        NotFound: the uri is of another form.
        InvalidInput: there is no such section.
    """
    if not uri.startswith(URI_SCHEME):
        raise NotFound(f"there is no resource {shown(uri)}; use workflow://namespace/name", reference=uri)
    workflow, _, section = uri.removeprefix(URI_SCHEME).partition("#")
    if section and section not in SECTIONS:
        raise InvalidInput(
            f"{shown(section)} is no section of a workflow; there are {', '.join(SECTIONS)}", field="uri"
        )
    return ResourceName(unquote(workflow), section)


def workflow_resource(workflow: WorkflowSummary) -> Resource:
    """One line of `resources/list`."""
    return Resource(
        uri=workflow.uri,
        name=workflow.workflow_id,
        title=workflow.title,
        description=f"{workflow.action_type}, risk {workflow.risk_level}",
        mime_type=MIME_TYPE,
    )


def resource(uri: str, text: str) -> ReadResourceResult:
    """JSON as the content of the resource, never cut."""
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=MIME_TYPE, text=text)])


def refusal(uri: str, error: Exception) -> MCPError:
    """The protocol's error for a failed read. Not found is `invalid params` to the protocol; other codes are ours."""
    failure = failure_of(error)
    code = INVALID_PARAMS if isinstance(error, InvalidInput | NotFound) else failure.code
    data = {"uri": uri, "code": failure.code, "retry": failure.retryable, **failure.details}
    return MCPError(code=code, message=failure.message, data=data)


class ResourceHandlers:
    """Handlers of the server. A refusal is an error of the protocol that says what to do."""

    def __init__(self, requests: McpRequests) -> None:
        self._requests = requests

    async def list_resources(self, ctx: McpContext, params: PaginatedRequestParams | None) -> ListResourcesResult:
        """The guide, then pages of the workflows that the incident allows.

        Where searches need an incident and the request has none, the guide alone: clients list before they know one.
        """
        return await _answered("resources/list", self._resources(ctx, cursor=(params and params.cursor) or ""))

    async def list_resource_templates(
        self, ctx: McpContext, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list(TEMPLATES))

    async def read_resource(self, ctx: McpContext, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await _answered(params.uri, self._resource(ctx, uri=params.uri))

    async def list_skills(self, ctx: McpContext, params: ListSkillsParams) -> Json:
        """One page: a listing holds the best few, any other skill can be read by its address."""
        return await _answered("skills/list", self._skills(ctx, cursor=params.cursor or ""))

    async def get_skill(self, ctx: McpContext, params: GetSkillParams) -> Json:
        return await _answered(params.uri, self._skill(ctx, uri=params.uri))

    async def _resources(self, ctx: McpContext, *, cursor: str) -> ListResourcesResult:
        request = await self._checked(ctx, ListingRequest(limit=_PAGE, cursor=cursor), action=_LIST, cursor=cursor)
        guide = [] if cursor else [skill_resource(GUIDE)]
        try:
            page = await request.services.listing.page(
                request.arguments, context=request.context, caller=request.caller
            )
        except ContextError:
            if request.context:
                raise
            return ListResourcesResult(resources=guide)
        resources = [*guide, *map(workflow_resource, page.workflows)]
        return ListResourcesResult(resources=resources, next_cursor=page.next_cursor or None)

    async def _resource(self, ctx: McpContext, *, uri: str) -> ReadResourceResult:
        if is_skill(uri):
            request = await self._checked(ctx, uri, action=_DETAILS, uri=uri)
            return skill_contents(
                await request.services.skills.read(uri, context=request.context, caller=request.caller)
            )
        wanted = await self._requests.checked(ctx, lambda: named(uri), action=_DETAILS, given=lambda: {"uri": uri})
        return resource(uri, await _named(wanted))

    async def _skills(self, ctx: McpContext, *, cursor: str) -> Json:
        request = await self._requests.checked(
            ctx, lambda: check_cursor(cursor), action=_LIST, given=lambda: {"cursor": cursor}
        )
        skills = await request.services.skills.listed(context=request.context, caller=request.caller)
        return listing(skills, protocol_version=ctx.protocol_version)

    async def _skill(self, ctx: McpContext, *, uri: str) -> Json:
        request = await self._checked(ctx, uri, action=_DETAILS, uri=uri)
        skill = await request.services.skills.read(uri, context=request.context, caller=request.caller)
        return entry(skill, protocol_version=ctx.protocol_version)

    async def _checked(self, ctx: McpContext, arguments: _T, *, action: str, **given: str) -> CheckedRequest[_T]:
        """A request whose arguments need no reading."""
        return await self._requests.checked(ctx, lambda: arguments, action=action, given=lambda: given)


async def _named(request: CheckedRequest[ResourceName]) -> str:
    """The workflow, or the section of it, that a resource is, as JSON; an application needs no incident to read it."""
    wanted, services, caller = request.arguments, request.services, request.caller
    context = replace(request.context, optional=True)
    if wanted.section:
        section = await services.browsing.section(wanted.workflow, wanted.section, context=context, caller=caller)
        return section.model_dump_json()
    details = await services.catalog.details(wanted.workflow, context=context, caller=caller)
    return details.model_dump_json()


async def _answered(uri: str, answer: Awaitable[_T]) -> _T:
    """The answer within its deadline; what goes wrong is an error of the protocol."""
    try:
        return await within_deadline(answer)
    except Exception as error:
        raise refusal(uri, error) from None
