"""What a call names: a workflow that its caller sees and its incident allows, or an earlier search of its own.

`services.search.service`, browsing, skills and the services of runs find workflows with it. What a call may read is
decided here for all of them, so an agent cannot run a workflow that its incident excludes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.catalog import WorkflowDetails
from formulary_catalog.domain.incidents import constraints_of
from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.search.results import workflow_details
from formulary_catalog.domain.stored import StoredManifest
from formulary_catalog.domain.targets.reference import parse_target
from formulary_catalog.domain.workflows.identity import WorkflowReference, parse_reference
from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.errors import InvalidInput, UnknownWorkflow
from formulary_catalog.kernel.manifests import ParsedWorkflow, ParsedWorkflows
from formulary_catalog.kernel.names import MOST, NearestNames
from formulary_catalog.kernel.trail import Record
from formulary_catalog.kernel.visibility import CallScope, Visibility
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.workflows.names import Declared
from formulary_catalog.store.workflows.reader import WorkflowReader

_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWorkflow:
    """One version of a workflow, its history, and the scope of the call that found it.

    The history of a `WorkflowFinder` holds what its caller may read; an explanation, which shows none, finds all
    that is visible.
    """

    stored: StoredManifest
    parsed: ParsedWorkflow
    history: tuple[StoredManifest, ...]
    scope: CallScope


def details_of(found: FoundWorkflow) -> WorkflowDetails:
    """Everything about the workflow."""
    return workflow_details(
        found.parsed.workflow,
        stored=found.stored,
        not_invocable_because=found.parsed.not_invocable_because,
        history=found.history,
    )


class WorkflowFinder:
    """Finds workflows by name, under the constraints of the incident."""

    def __init__(
        self,
        *,
        workflows: WorkflowReader,
        nearest: NearestNames,
        visibility: Visibility,
        parsed: ParsedWorkflows,
        strict_keys: frozenset[str],
    ) -> None:
        self._nearest = nearest
        self._workflows = workflows
        self._visibility = visibility
        self._parsed = parsed
        self._strict_keys = strict_keys

    async def find(
        self,
        workflow_id: str,
        *,
        version: str,
        reference: ContextReference,
        caller: Caller,
        record: Record,
        browsing: bool = False,
    ) -> FoundWorkflow:
        """The workflow that a name in any form of DESIGN section 3 means; `record` and `browsing` as `Visibility.of`.

        Raises:
            NotFound: no visible, allowed workflow has that name.
            InvalidInput: the name is malformed, or needs a namespace.
            ContextError, NotAllowed, Unavailable: as `Visibility.of`.
        """
        wanted = parse_reference(workflow_id, version=version)
        scope = await self._visibility.of(reference, caller=caller, record=record, browsing=browsing)
        return await self.find_within(wanted, scope=scope)

    async def find_within(self, wanted: WorkflowReference, *, scope: CallScope) -> FoundWorkflow:
        """The workflow that is meant, within the scope of a call.

        Raises:
            NotFound: no visible, allowed workflow has that name or version; the error has the nearest of them.
            InvalidInput: it needs a namespace.
            Unavailable: the database does not answer.
        """
        found = await self._found(wanted, scope=scope)
        if not found:
            raise UnknownWorkflow(str(wanted), nearest=await self._near(wanted, scope=scope))
        if len(found) > 1:
            names = ", ".join(f"{each.stored.namespace}/{each.stored.name}" for each in found)
            raise InvalidInput(
                f"workflow_id {str(wanted)!r} exists in {len(found)} namespaces; name one: {names}", field="workflow_id"
            )
        return found[0]

    async def _found(self, wanted: WorkflowReference, *, scope: CallScope) -> list[FoundWorkflow]:
        constraints = self.constraints(scope)
        return [
            FoundWorkflow(
                stored=stored,
                parsed=parsed,
                history=tuple(each for each in history if self.allowed(each, constraints) is not None),
                scope=scope,
            )
            for stored, history in await self._workflows.find(
                wanted, namespaces=scope.namespaces, constraints=constraints
            )
            if (parsed := self.allowed(stored, constraints)) is not None
        ]

    async def _near(self, wanted: WorkflowReference, *, scope: CallScope) -> list[str]:
        """Versions that the workflow has, where only the version is unknown; else the nearest names."""
        if wanted.name and wanted.version:
            named = await self._found(replace(wanted, version=""), scope=scope)
            if versions := [f"{each.stored.workflow_id}@{line.version}" for each in named for line in each.history]:
                return versions[:MOST]
        return await self.nearest(wanted.name, scope=scope)

    async def versions(self, version_ids: Sequence[str], *, scope: CallScope) -> list[FoundWorkflow]:
        """Those of these versions that the call may read, in this order, without their history: one read for all.

        Raises:
            Unavailable: the database does not answer.
        """
        constraints = self.constraints(scope)
        stored = await self._workflows.versions(version_ids, namespaces=scope.namespaces, constraints=constraints)
        return [
            FoundWorkflow(stored=each, parsed=parsed, history=(), scope=scope)
            for each in sorted(stored, key=lambda each: version_ids.index(each.version_id))
            if (parsed := self.allowed(each, constraints)) is not None
        ]

    async def nearest(self, name: str, *, scope: CallScope) -> list[str]:
        """The names nearest to one that nothing has; none for an empty one."""
        if not name:
            return []
        return await self._nearest.of(name, constraints=self.constraints(scope), namespaces=scope.namespaces)

    async def nearest_values(self, what: Declared, value: str, *, scope: CallScope) -> list[str] | None:
        """The values nearest to one that no workflow has; None if some workflow has it."""
        return await self._nearest.values(what, value, constraints=self.constraints(scope), namespaces=scope.namespaces)

    async def unknown_values(self, given: Mapping[Declared, str], *, scope: CallScope) -> list[str]:
        """A note on each of these values that no workflow has, with the nearest ones."""
        notes = []
        for what, value in given.items():
            if value and (near := await self.nearest_values(what, value, scope=scope)) is not None:
                meant = f"did you mean {' or '.join(near)}?" if near else "leave it out to see what there is"
                notes.append(f"no workflow you may see has {what} {value[:_SHOWN]!r}; {meant}")
        return notes

    def constraints(self, scope: CallScope) -> Constraints:
        """What the incident of a call demands."""
        context = scope.context
        return constraints_of(context, strict_keys=self._strict_keys) if context is not None else Constraints()

    def allowed(self, stored: StoredManifest | Invocation, constraints: Constraints) -> ParsedWorkflow | None:
        """The workflow, if it can be read and the constraints allow it."""
        parsed = self._parsed.get(stored.version_id, stored.document)
        return parsed if parsed is not None and allowed(parsed.labels, constraints) else None


async def with_target_of_search(
    reference: ContextReference, *, search_id: str, traces: TraceStore, caller: Caller
) -> ContextReference:
    """What a call names; where that is nothing, the target of the search that it follows.

    Raises:
        InvalidInput: `search_id` is none.
        Unavailable: the database does not answer.
    """
    if reference or not search_id:
        return reference
    known = _uuid(search_id)
    if known is None:
        raise InvalidInput(
            "search_id names no recorded search; copy the search_id of the answer you chose from, or leave it out",
            field="search_id",
        )
    searched = await traces.searched_target(known, caller=caller.name)
    return replace(reference, target=parse_target(searched)) if searched else reference


async def own_search(traces: TraceStore, search_id: str, *, caller: str, record: Record) -> UUID | None:
    """The search of this id; None where none is named. `record` has the incident or the target of the call.

    Raises:
        InvalidInput: it is none of this caller's for this incident or target.
        Unavailable: the database does not answer.
    """
    if not search_id:
        return None
    known = _uuid(search_id)
    if known is not None and record.target and await traces.searched_target(known, caller=caller) != record.target:
        raise InvalidInput(
            f"search_id is not that of a search for {record.target}, and what it found may not be allowed there; "
            "search with this target, then choose one of the hits",
            field="search_id",
        )
    if known is None or not await traces.search_recorded(known, caller=caller, remediation_id=record.remediation_id):
        raise InvalidInput(
            "search_id names no recorded search; copy the search_id of the answer you chose from, or leave it out",
            field="search_id",
        )
    return known


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
