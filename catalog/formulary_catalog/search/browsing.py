"""Browsing the catalog, for every edge: relations, names, impact, sections, statistics.

MCP, REST and the command line call it. Nothing here ranks by meaning. What the caller does not see and what the
incident excludes is neither counted nor walked through, no neighbour and no nearest name: every statement has the
rules of a search (`store/workflows/allowed`). Each method records one event.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from formulary_catalog.domain.access import READ_INVOCATIONS, USE_CONTEXTS, Caller
from formulary_catalog.domain.browsing import (
    ImpactAnswer,
    NamedWorkflow,
    NamesAnswer,
    NamingRule,
    QueryCount,
    RelatedAnswer,
    RelatedEntity,
    RunCounts,
    SearchStatistics,
    SectionAnswer,
    StatisticsAnswer,
)
from formulary_catalog.domain.governance.rules import rules_naming
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.domain.search.browsing import RelatedRequest
from formulary_catalog.domain.search.query import CANONICAL_SIGNAL_TYPES
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.search.results import moment, workflow_id, workflow_uri
from formulary_catalog.domain.search.scoring import WEAK_CONFIDENCE
from formulary_catalog.domain.workflows.identity import VERSION_ID_PREFIX, parse_reference, precedence
from formulary_catalog.domain.workflows.labels import WILDCARD, fold
from formulary_catalog.domain.workflows.relations import MAX_DEPTH, STORED, Direction, Neighbour, Relation
from formulary_catalog.domain.workflows.sections import section_of
from formulary_catalog.domain.workflows.visible import visible
from formulary_catalog.errors import InvalidInput, NotFound, UnknownWorkflow
from formulary_catalog.search.lookup import FoundWorkflow, details_of
from formulary_catalog.search.parts import CatalogParts
from formulary_catalog.search.visibility import CallScope, namespaces_with
from formulary_catalog.store.runs.reviewing import ReviewReader
from formulary_catalog.store.workflows.names import EXACT, MATCHES, NamedVersion, NameQuestion, NameReader
from formulary_catalog.store.workflows.relations import RelationReader, Start, Walk
from formulary_catalog.store.workflows.statistics import SearchNumbers, StatisticsReader

_SHOWN_NAMES = 10
_SHOWN_INCOMING = 20
_SHOWN_COUNTS = 15
_SHOWN_SIGNALS = 20
_SHOWN_RULES = 20
_SHOWN_QUERIES = 10
_QUERY_CHARACTERS = 80
_SEARCH_DAYS = 7
_USE_DAYS = 30
_SIGNALS = {fold(name): name for name in CANONICAL_SIGNAL_TYPES}


class Browsing:
    """Answers callers; every failure is a `FormularyError`, every call leaves an event in the trail.

    All methods raise `ContextError`, `NotAllowed` and `Unavailable` as `Visibility.of`. `browsing` is reading by a
    person, who needs no incident where agents do; an incident that is named still constrains what is found.
    """

    def __init__(self, parts: CatalogParts) -> None:
        self._relations = RelationReader(parts.database)
        self._names = NameReader(parts.database)
        self._statistics = StatisticsReader(parts.database)
        self._review = ReviewReader(parts.database)
        self._trail, self._visibility, self._finder = parts.trail, parts.visibility, parts.finder

    async def related(
        self, request: RelatedRequest, *, context: ContextReference, caller: Caller, browsing: bool = False
    ) -> RelatedAnswer:
        """What is connected with a workflow in any form of its name, a signal type or an action type.

        Signals and actions are ends: walks go on from workflow to workflow, along what manifests say.

        Raises:
            NotFound: nothing that is visible and allowed has that name.
            InvalidInput: the name needs a namespace.
        """
        arguments = {"entity": request.entity, "depth": request.depth, "relations": list(request.relations)}
        async with self._trail.record("read.related", caller=caller, reference=context, arguments=arguments) as record:
            scope = await self._visibility.of(context, caller=caller, record=record, browsing=browsing)
            found = await self._workflow(request.entity, scope=scope)
            if found is None:
                answer = await self._related_to_label(request, scope=scope)
            else:
                answer = await self._related_to_workflow(request, found=found, scope=scope)
            record.result = {"total": answer.total}
            return answer

    async def find(
        self, name: str, *, context: ContextReference, caller: Caller, browsing: bool = False
    ) -> NamesAnswer:
        """The workflows that a name may mean: a name or a part of one, a version id, a signal, a title."""
        async with self._trail.record(
            "read.names", caller=caller, reference=context, arguments={"name": name}
        ) as record:
            scope = await self._visibility.of(context, caller=caller, record=record, browsing=browsing)
            pinned = await self._pinned(name, scope=scope)
            found, total = ([pinned], 1) if pinned is not None else await self._named(name, scope=scope)
            exact = [each for each in found if each.matched in MATCHES[:EXACT]]
            near: list[NamedVersion] = []
            if not found:
                for each in await self._finder.nearest(_bare(name), scope=scope):
                    near += (await self._named(each, scope=scope))[0][:1]
                near = [_similar(each) for each in near]
            shown = found or near
            record.result = {"total": total}
            return NamesAnswer(
                name=name,
                exact=bool(exact),
                workflows=[_named_workflow(each) for each in shown],
                total=total,
                notes=[] if found else ["nothing has this name" + ("; these are the nearest" if near else "")],
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
            contracts = await self._review.contracts(caller=caller.name, namespaces=scope.namespaces)
            rules = rules_naming(contracts, namespace=stored.namespace, name=stored.name, action_type=spec.action_type)
            reviewed = await namespaces_with(caller, READ_INVOCATIONS, among=scope.concerned | {stored.namespace})
            runs = await self._review.not_over(
                namespace=stored.namespace, name=stored.name, caller=caller.name, namespaces=reviewed
            )
            first, chosen = await self._statistics.use_of(
                [line.version_id for line in found.history], since=_days_ago(_USE_DAYS)
            )
            record.result = {"version_id": stored.version_id, "incoming": total}
            return ImpactAnswer(
                workflow_id=found.workflow_id,
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
                runs_counted=stored.outcome.succeeded + stored.outcome.failed,
                notes=[
                    f"{len(rules) - _SHOWN_RULES} more rules are not shown"
                    for _ in rules[_SHOWN_RULES : _SHOWN_RULES + 1]
                ],
                uri=workflow_uri(namespace=stored.namespace, name=stored.name, version=stored.version),
            )

    async def section(
        self, name: str, section: str, *, context: ContextReference, caller: Caller, browsing: bool = False
    ) -> SectionAnswer:
        """One of `domain.workflows.sections.SECTIONS` of a workflow.

        Raises:
            NotFound: no visible, allowed workflow has that name.
            InvalidInput: the name is malformed, or needs a namespace.
        """
        arguments = {"workflow_id": name, "section": section}
        async with self._trail.record("read.section", caller=caller, reference=context, arguments=arguments) as record:
            scope = await self._visibility.of(context, caller=caller, record=record, browsing=browsing)
            found = await self._finder.find_within(parse_reference(name), scope=scope)
            details = details_of(found)
            text, items = section_of(details, section)
            record.result = {"version_id": details.version_id}
            return SectionAnswer(
                workflow_id=details.workflow_id,
                version=details.version,
                section=section,
                uri=f"{details.uri}#{section}",
                text=text,
                items=items,
                notes=[] if text or items else [f"this workflow says nothing under {section}"],
            )

    async def statistics(
        self, *, context: ContextReference, caller: Caller, browsing: bool = False
    ) -> StatisticsAnswer:
        """The catalog in numbers. What is not served counts for people who browse without an incident."""
        async with self._trail.record("read.statistics", caller=caller, reference=context, arguments={}) as record:
            scope = await self._visibility.of(context, caller=caller, record=record, browsing=browsing)
            numbers = await self._statistics.catalog(
                constraints=self._finder.constraints(scope), namespaces=scope.namespaces
            )
            whose = await namespaces_with(caller, USE_CONTEXTS, among=scope.concerned)
            searches = await self._statistics.searches(
                namespaces=whose,
                caller=caller.name,
                since=_days_ago(_SEARCH_DAYS),
                sure=WEAK_CONFIDENCE,
                queries=_SHOWN_QUERIES,
            )
            others = numbers.others if browsing and scope.context is None else {}
            without = [name for folded, name in _SIGNALS.items() if folded not in numbers.signals]
            alone = [visible(name) for name in numbers.lone_signals]
            record.result = {"total": numbers.total}
            return StatisticsAnswer(
                total=numbers.total,
                by_status={"Active": numbers.total, **others},
                by_namespace=_most(numbers.by_namespace),
                by_action=_most(numbers.by_action),
                by_risk=_most(numbers.by_risk),
                signals_without_workflow=without,
                signals_with_one_workflow=alone[:_SHOWN_SIGNALS],
                model=numbers.model,
                last_indexed=moment(numbers.last_indexed) if numbers.last_indexed else "",
                searches=_search_statistics(searches),
                notes=[
                    f"{len(alone) - _SHOWN_SIGNALS} more signals have one workflow" for _ in alone[_SHOWN_SIGNALS:][:1]
                ],
            )

    async def _workflow(self, entity: str, *, scope: CallScope) -> FoundWorkflow | None:
        """The workflow that an entity names; None where it may name a signal or an action."""
        spelled_out = "/" in entity or "@" in entity or entity.startswith(VERSION_ID_PREFIX)
        try:
            return await self._finder.find_within(parse_reference(entity), scope=scope)
        except NotFound:
            if spelled_out:
                raise
        except InvalidInput:
            if spelled_out or not entity.isalnum():
                raise
        return None

    async def _related_to_workflow(
        self, request: RelatedRequest, *, found: FoundWorkflow, scope: CallScope
    ) -> RelatedAnswer:
        neighbours, total = await self._relations.around(
            _start(found),
            Walk(depth=request.depth, relations=request.relations),
            constraints=self._finder.constraints(scope),
            namespaces=scope.namespaces,
            limit=request.limit,
        )
        placed = [(each.place, _related_workflow(each)) for each in neighbours]
        own = [each for each in _declared(found) if each.relation in request.relations]
        order = list(Relation)
        placed += [((1, order.index(Relation(each.relation)), "", "", ""), each) for each in own]
        related = [each for _, each in sorted(placed, key=lambda one: one[0])]
        return _related_answer(
            request, entity=found.workflow_id, kind="workflow", related=related, total=total + len(own)
        )

    async def _related_to_label(self, request: RelatedRequest, *, scope: CallScope) -> RelatedAnswer:
        """What answers a signal, else what has an action."""
        folded = fold(request.entity)
        for kind, start in (("signal", Start(signal_type=folded)), ("action", Start(action_type=request.entity))):
            neighbours, total = await self._relations.around(
                start,
                Walk(depth=request.depth, relations=request.relations),
                constraints=self._finder.constraints(scope),
                namespaces=scope.namespaces,
                limit=request.limit,
            )
            if total or (kind == "signal" and folded in _SIGNALS):
                related = [_related_workflow(each) for each in neighbours]
                entity = _SIGNALS.get(folded, request.entity)
                return _related_answer(request, entity=entity, kind=kind, related=related, total=total)
        raise UnknownWorkflow(request.entity, nearest=await self._finder.nearest(request.entity.lower(), scope=scope))

    async def _pinned(self, name: str, *, scope: CallScope) -> NamedVersion | None:
        """The version that a version id, or a name with a version, stands for."""
        if not (name.startswith(VERSION_ID_PREFIX) or "@" in name):
            return None
        try:
            found = await self._finder.find_within(parse_reference(name), scope=scope)
        except (NotFound, InvalidInput):
            return None
        stored = found.stored
        return NamedVersion(
            version_id=stored.version_id,
            namespace=stored.namespace,
            name=stored.name,
            version=stored.version,
            title=found.parsed.workflow.spec.title,
            matched="version id" if name.startswith(VERSION_ID_PREFIX) else "name",
            ambiguous=stored.ambiguous,
        )

    async def _named(self, name: str, *, scope: CallScope) -> tuple[list[NamedVersion], int]:
        namespace, _, bare = name.rpartition("/")
        return await self._names.find(
            NameQuestion(
                name=bare,
                namespace=namespace,
                signal=fold(name),
                title=name.lower(),
                part="-".join(bare.lower().split()),
            ),
            constraints=self._finder.constraints(scope),
            namespaces=scope.namespaces,
            limit=_SHOWN_NAMES,
        )


def _start(found: FoundWorkflow) -> Start:
    stored = found.stored
    return Start(
        version_id=stored.version_id,
        namespace=stored.namespace,
        name=stored.name,
        action_type=found.parsed.workflow.spec.action_type,
    )


def _declared(found: FoundWorkflow) -> list[RelatedEntity]:
    """The neighbours that the workflow itself tells of: its other versions, and the signals that it answers."""
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


def _related_answer(
    request: RelatedRequest, *, entity: str, kind: str, related: Sequence[RelatedEntity], total: int
) -> RelatedAnswer:
    shown = list(related[: request.limit])
    notes = [f"{total - len(shown)} more; raise limit, or name relations"] if total > len(shown) else []
    return RelatedAnswer(entity=entity, type=kind, related=shown, total=total, notes=notes)


def _related_workflow(neighbour: Neighbour) -> RelatedEntity:
    return RelatedEntity(
        name=workflow_id(namespace=neighbour.namespace, name=neighbour.name, ambiguous=neighbour.ambiguous),
        type="workflow",
        relation=neighbour.relation,
        direction=neighbour.direction,
        depth=neighbour.depth,
        uri=workflow_uri(namespace=neighbour.namespace, name=neighbour.name),
    )


def _named_workflow(found: NamedVersion) -> NamedWorkflow:
    return NamedWorkflow(
        workflow_id=workflow_id(namespace=found.namespace, name=found.name, ambiguous=found.ambiguous),
        version=found.version,
        version_id=found.version_id,
        title=visible(found.title) or found.name.replace("-", " ").capitalize(),
        matched=found.matched,
        uri=workflow_uri(namespace=found.namespace, name=found.name),
    )


def _similar(found: NamedVersion) -> NamedVersion:
    return replace(found, matched=MATCHES[-1])


def _bare(name: str) -> str:
    """The part of a name that names are compared with."""
    return "-".join(name.rpartition("/")[2].partition("@")[0].lower().split())


def _days_ago(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def _most(counts: dict[str, int]) -> dict[str, int]:
    """The most frequent ones, and how many the others are together."""
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    rest = sum(number for _, number in ordered[_SHOWN_COUNTS:])
    return dict(ordered[:_SHOWN_COUNTS]) | ({"(others)": rest} if rest else {})


def _search_statistics(searches: SearchNumbers) -> SearchStatistics:
    asked = sum(searches.by_mode.values())
    return SearchStatistics(
        by_mode=searches.by_mode,
        weak_share=round((searches.weak + searches.unanswered) / asked, 4) if asked else None,
        unanswered=searches.unanswered,
        unanswered_queries=[
            QueryCount(query=visible(query)[:_QUERY_CHARACTERS], times=times) for query, times in searches.queries
        ],
    )
