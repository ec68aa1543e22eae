"""How workflows hang together, for every edge: what is connected with one, and what would be missed without it.

MCP, REST and the command line call it. What the caller does not see and what the incident excludes is no neighbour, and
no way leads through it: every statement has the rules of a search (`store/search/allowed`).
"""

from datetime import UTC, datetime, timedelta

from formulary_catalog.domain.access import READ_CONTRACTS, READ_INVOCATIONS, USE_CONTEXTS, Caller
from formulary_catalog.domain.answers.browsing import (
    ImpactAnswer,
    NamingRule,
    RelatedEntity,
    RelatedPage,
    RunCounts,
)
from formulary_catalog.domain.cursor import NumberedRow, cursor, number_of
from formulary_catalog.domain.governance.contract import unknown_notes
from formulary_catalog.domain.governance.rules import rules_naming
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.identity import (
    VERSION_ID_PREFIX,
    parse_reference,
    precedence,
    workflow_id,
    workflow_uri,
)
from formulary_catalog.domain.workflows.labels import CANONICAL_BY_FOLD, WILDCARD, fold
from formulary_catalog.domain.workflows.relations import MAX_DEPTH, STORED, Direction, Neighbour, Relation
from formulary_catalog.domain.workflows.requests import RelatedRequest
from formulary_catalog.errors import NotFound, NoWorkflowName, UnknownWorkflow
from formulary_catalog.kernel.lookup import FoundWorkflow
from formulary_catalog.kernel.names import MOST
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.visibility import CallScope, namespaces_with
from formulary_catalog.store.runs.reviewing import ReviewReader
from formulary_catalog.store.workflows.names import Declared
from formulary_catalog.store.workflows.relations import RelationReader, Start, Walk
from formulary_catalog.store.workflows.statistics import CountedFor, StatisticsReader

_SHOWN_INCOMING = 20
_SHOWN_RULES = 20
_USED = timedelta(days=30)


class Relations:
    """Answers callers; every failure is a `FormularyError`, every call leaves an event in the trail.

    All methods raise `ContextError`, `NotAllowed` and `Unavailable` as `Visibility.of`. `browsing` as in the
    latter; an incident that is named constrains what is found in any case.
    """

    def __init__(self, parts: CatalogParts) -> None:
        self._relations = RelationReader(parts.database)
        self._statistics = StatisticsReader(parts.database)
        self._review = ReviewReader(parts.database)
        self._trail, self._visibility, self._finder = parts.trail, parts.visibility, parts.finder

    async def related(
        self, request: RelatedRequest, *, context: ContextReference, caller: Caller, browsing: bool = False
    ) -> RelatedPage:
        """What is connected with a workflow in any form of its name, a signal type or an action type.

        Signals and actions are ends: walks go on from workflow to workflow, along what manifests say.

        Raises:
            NotFound: nothing that is visible and allowed has that name.
            InvalidInput: the name needs a namespace, or the cursor is that of another question.
        """
        arguments = {"entity": request.entity, "depth": request.depth, "relations": list(request.relations)}
        question = {**request.question, "list": "related", "incident": context.names}
        async with self._trail.record("read.related", caller=caller, reference=context, arguments=arguments) as record:
            begin = number_of(request.cursor, question=question)
            end = begin + request.limit
            scope = await self._visibility.of(context, caller=caller, record=record, browsing=browsing)
            found = await self._workflow(request.entity, scope=scope)
            if found is None:
                answer = await self._related_to_label(request, scope=scope, limit=end)
            else:
                answer = await self._related_to_workflow(request, found=found, scope=scope, limit=end)
            record.result = {"total": answer.total}
            more = answer.total - end
            return answer.model_copy(
                update={
                    "related": answer.related[begin:end],
                    "next_cursor": cursor(NumberedRow(str(end)), question=question) if more > 0 else "",
                    "notes": [f"{more} more; raise limit, or name relations"] if more > 0 else [],
                }
            )

    async def impact(
        self, name: str, *, context: ContextReference, caller: Caller, browsing: bool = False
    ) -> ImpactAnswer:
        """What would be missed without a workflow.

        Raises:
            NotFound: no visible, allowed workflow has that name.
            InvalidInput: the name is malformed, or needs a namespace.
        """
        async with self._trail.record(
            "read.impact", caller=caller, reference=context, arguments={"workflow_id": name}
        ) as record:
            scope = await self._visibility.of(context, caller=caller, record=record, browsing=browsing)
            found = await self._finder.find_within(parse_reference(name), scope=scope)
            stored, spec = found.stored, found.parsed.workflow.spec
            constraints = self._finder.constraints(scope)
            incoming, total = await self._relations.around(
                _start(found),
                Walk(depth=MAX_DEPTH, relations=STORED, directions=(Direction.INCOMING,)),
                constraints=constraints,
                namespaces=scope.namespaces,
                limit=_SHOWN_INCOMING,
            )
            signals = {fold(each): each for each in spec.labels.signal_type if each != WILDCARD}
            alone = await self._relations.only_answer(
                list(signals), version_id=stored.version_id, constraints=constraints, namespaces=scope.namespaces
            )
            concerned = scope.concerned | {stored.namespace}
            governed = await namespaces_with(caller, READ_CONTRACTS, among=concerned)
            contracts, unknown = await self._review.contracts(caller=caller.name, namespaces=governed)
            rules = rules_naming(contracts, namespace=stored.namespace, name=stored.name, action_type=spec.action_type)
            reviewed = await namespaces_with(caller, READ_INVOCATIONS, among=concerned)
            versions = [line.version_id for line in found.history]
            runs = await self._review.not_over(
                versions, caller=caller.name, namespaces=reviewed, remediation_id=scope.remediation_id
            )
            last_run = await self._review.last_run(
                versions, caller=caller.name, namespaces=reviewed, remediation_id=scope.remediation_id
            )
            asking = CountedFor(
                namespaces=await namespaces_with(caller, USE_CONTEXTS, among=concerned),
                caller=caller.name,
                remediation_id=scope.remediation_id,
            )
            first, chosen = await self._statistics.use_of(versions, asking, since=datetime.now(UTC) - _USED)
            record.result = {"version_id": stored.version_id, "incoming": total}
            return ImpactAnswer(
                workflow_id=found.stored.workflow_id,
                version=stored.version,
                incoming=[_related_workflow(each) for each in incoming],
                incoming_total=total,
                only_answer_to=sorted(visible(signals[each]) for each in alone),
                contracts=[
                    NamingRule(contract=each.contract, rule=each.id, effect=each.effect)
                    for each in rules[:_SHOWN_RULES]
                ],
                runs=RunCounts(
                    pending=runs.get(Phase.PENDING, 0),
                    awaiting_approval=runs.get(Phase.AWAITING_APPROVAL, 0),
                    running=runs.get(Phase.RUNNING, 0),
                ),
                first_in_searches=first,
                selected=chosen,
                success_rate=stored.outcome.success_rate,
                success_interval=stored.outcome.success_interval,
                runs_counted=stored.outcome.verified,
                last_run=moment(last_run) if last_run is not None else "",
                notes=[
                    *(
                        f"{len(rules) - _SHOWN_RULES} more rules are not shown"
                        for _ in rules[_SHOWN_RULES : _SHOWN_RULES + 1]
                    ),
                    *unknown_notes(unknown),
                ],
                uri=workflow_uri(namespace=stored.namespace, name=stored.name, version=stored.version),
            )

    async def _workflow(self, entity: str, *, scope: CallScope) -> FoundWorkflow | None:
        """The workflow that an entity names; None where it may name a signal or an action."""
        spelled_out = "/" in entity or "@" in entity or entity.startswith(VERSION_ID_PREFIX)
        try:
            return await self._finder.find_within(parse_reference(entity), scope=scope)
        except NotFound:
            if spelled_out:
                raise
        except NoWorkflowName:
            pass
        return None

    async def _related_to_workflow(
        self, request: RelatedRequest, *, found: FoundWorkflow, scope: CallScope, limit: int
    ) -> RelatedPage:
        """The first neighbours, `limit` of them or some more."""
        neighbours, total = await self._relations.around(
            _start(found),
            Walk(depth=request.depth, relations=request.relations),
            constraints=self._finder.constraints(scope),
            namespaces=scope.namespaces,
            limit=limit,
        )
        placed = [(each.place, _related_workflow(each)) for each in neighbours]
        own = [each for each in _declared(found) if each.relation in request.relations]
        order = list(Relation)
        placed += [((1, order.index(Relation(each.relation)), "", "", ""), each) for each in own]
        related = [each for _, each in sorted(placed, key=lambda one: one[0])]
        return RelatedPage(
            entity=found.stored.workflow_id, type="workflow", related=related, total=total + len(own), notes=[]
        )

    async def _related_to_label(self, request: RelatedRequest, *, scope: CallScope, limit: int) -> RelatedPage:
        """The first `limit` that answer a signal, else those that have an action."""
        folded = fold(request.entity)
        for kind, start in (("signal", Start(signal_type=folded)), ("action", Start(action_type=request.entity))):
            neighbours, total = await self._relations.around(
                start,
                Walk(depth=request.depth, relations=request.relations),
                constraints=self._finder.constraints(scope),
                namespaces=scope.namespaces,
                limit=limit,
            )
            if total or (kind == "signal" and folded in CANONICAL_BY_FOLD):
                related = [_related_workflow(each) for each in neighbours]
                entity = CANONICAL_BY_FOLD.get(folded, request.entity)
                return RelatedPage(entity=entity, type=kind, related=related, total=total, notes=[])
        near = [
            *(await self._finder.nearest_values(Declared.SIGNAL_TYPE, request.entity, scope=scope) or []),
            *(await self._finder.nearest_values(Declared.ACTION_TYPE, request.entity, scope=scope) or []),
            *await self._finder.nearest(request.entity.lower(), scope=scope),
        ]
        raise UnknownWorkflow(request.entity, nearest=near[:MOST])


def _start(found: FoundWorkflow) -> Start:
    stored = found.stored
    return Start(
        version_id=stored.version_id,
        namespace=stored.namespace,
        name=stored.name,
        action_type=found.parsed.workflow.spec.action_type,
    )


def _declared(found: FoundWorkflow) -> list[RelatedEntity]:
    """The neighbours that the workflow itself names: its other versions, and the signals that it answers."""
    stored = found.stored
    versions = [
        RelatedEntity(
            name=f"{stored.name}@{line.version}",
            type="version",
            relation=Relation.PREVIOUS_VERSION,
            direction=Direction.OUTGOING
            if precedence(line.version) < precedence(stored.version)
            else Direction.INCOMING,
            depth=1,
            uri=workflow_uri(namespace=stored.namespace, name=stored.name, version=line.version),
        )
        for line in found.history
        if line.version_id != stored.version_id
    ]
    signals = [
        RelatedEntity(
            name=signal,
            type="signal",
            relation=Relation.ANSWERS_SIGNAL,
            direction=Direction.OUTGOING,
            depth=1,
            uri="",
        )
        for signal in found.parsed.workflow.spec.labels.signal_type
        if signal != WILDCARD
    ]
    return [*versions, *signals]


def _related_workflow(neighbour: Neighbour) -> RelatedEntity:
    return RelatedEntity(
        name=workflow_id(namespace=neighbour.namespace, name=neighbour.name, ambiguous=neighbour.ambiguous),
        type="workflow",
        relation=neighbour.relation,
        direction=neighbour.direction,
        depth=neighbour.depth,
        uri=workflow_uri(namespace=neighbour.namespace, name=neighbour.name),
    )
