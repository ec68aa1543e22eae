"""The skills of a call: the guide to the tools, and the workflows that its incident allows and its signal asks for.

`edges/mcp/resources` calls it for the applications of agents, which need no incident but see no more than
agents do: nothing here is browsing by a person. A skill is read under the same rules as the details of its workflow,
and leaves their event in the trail; a listing leaves one event for all of them.
"""

from collections.abc import Sequence
from dataclasses import replace

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.search.request import DEFAULT_TOP_K, MAX_QUERY_LENGTH, ContextReference, search_request
from formulary_catalog.domain.workflows.skill import GUIDE, Skill, workflow_of_skill, workflow_skill
from formulary_catalog.errors import NotFound
from formulary_catalog.kernel.lookup import details_of
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.service import CatalogService

_MAX_SHOWN = 200


class SkillService:
    """Answers callers. All methods raise what `CatalogService.search` raises."""

    def __init__(self, parts: CatalogParts, *, catalog: CatalogService) -> None:
        self._catalog = catalog
        self._contexts, self._trail, self._visibility, self._finder = (
            parts.contexts,
            parts.trail,
            parts.visibility,
            parts.finder,
        )

    async def listed(self, *, context: ContextReference, caller: Caller) -> list[Skill]:
        """The guide, then the workflows that a search for the incident's own signal and severity finds, best first.

        Without an incident, or without a signal, the guide alone: a listing may be partial, any skill can be read.
        """
        incident = await self._contexts.resolve(replace(context, optional=True), caller=caller)
        if incident is None or not incident.signal_name:
            return [GUIDE]
        query = f"{incident.signal_name} {incident.severity}".strip()[:MAX_QUERY_LENGTH]
        request = search_request(query=query, context=context, top_k=DEFAULT_TOP_K)  # weak ones may be read, too
        found = await self._catalog.search(request, caller=caller)
        version_ids = [hit.version_id for hit in found.workflows]
        return [GUIDE, *(await self._skills(version_ids, context=context, caller=caller) if version_ids else [])]

    async def read(self, uri: str, *, context: ContextReference, caller: Caller) -> Skill:
        """One skill by the address of its `SKILL.md`.

        Raises:
            NotFound: there is none, or none that this call may read.
        """
        if uri == GUIDE.uri:
            return GUIDE
        if (workflow := workflow_of_skill(uri)) is not None:
            skill = await self._skill(workflow, context=context, caller=caller)
            if skill.uri == uri:
                return skill
        raise NotFound(
            f"there is no skill {uri[:_MAX_SHOWN]!r}; take a uri of skills/list, or {GUIDE.uri}", reference=uri
        )

    async def _skills(self, version_ids: Sequence[str], *, context: ContextReference, caller: Caller) -> list[Skill]:
        arguments = {"version_ids": version_ids}
        async with self._trail.record("read.skills", caller=caller, reference=context, arguments=arguments) as record:
            scope = await self._visibility.of(context, caller=caller, record=record)
            found = await self._finder.versions(version_ids, scope=scope)
            record.result = {"version_ids": [each.stored.version_id for each in found]}
            return [workflow_skill(details_of(each)) for each in found]

    async def _skill(self, workflow: str, *, context: ContextReference, caller: Caller) -> Skill:
        reference = replace(context, optional=True)
        return workflow_skill(await self._catalog.details(workflow, context=reference, caller=caller))
