"""What the protocol reads beside tools: resources and skills, under the constraints of the incident.

`edges/mcp/server` registers these handlers. Each is a presentation of a service; none has rules of its own.
"""

from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from mcp_types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)

from formulary_catalog.domain.answers.shortening import Json
from formulary_catalog.domain.workflows.requests import ListingRequest
from formulary_catalog.domain.workflows.skill import GUIDE
from formulary_catalog.edges.calls.failures import within_deadline
from formulary_catalog.edges.mcp.requests import CheckedRequest, McpContext, McpRequests
from formulary_catalog.edges.mcp.resources import TEMPLATES, ResourceName, named, refusal, resource, workflow_resource
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
from formulary_catalog.errors import ContextError

_PAGE = 50
_LIST, _DETAILS = "list", "details"
_T = TypeVar("_T")


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
