"""Browsing the catalog, for every edge: names, sections, statistics; `services/workflows/relations` has the graph.

MCP, REST and the command line call it. Nothing here ranks by meaning. What the caller does not see and what the
incident excludes is neither counted nor walked through, no neighbour and no nearest name: every statement has the
rules of a search (`store/search/allowed`). Each method records one event.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.answers.browsing import (
    NamedWorkflow,
    NamesAnswer,
    QueryCount,
    SearchStatistics,
    SectionAnswer,
    StatisticsAnswer,
)
from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.stored import StoredVersion
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.identity import (
    URI_SCHEME,
    VERSION_ID_PREFIX,
    parse_reference,
    workflow_uri,
)
from formulary_catalog.domain.workflows.labels import CANONICAL_BY_FOLD, fold
from formulary_catalog.domain.workflows.sections import section_of
from formulary_catalog.errors import InvalidInput, NotFound
from formulary_catalog.kernel.lookup import details_of
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.visibility import CallScope, namespaces_with
from formulary_catalog.store.workflows.names import EXACT, MATCHES, Declared, NameQuestion, NameReader
from formulary_catalog.store.workflows.statistics import CountedFor, SearchNumbers, StatisticsReader

_SHOWN_NAMES = 10
_SHOWN_COUNTS = 15
_SHOWN_SIGNALS = 20
_SHOWN_QUERIES = 10
_QUERY_CHARACTERS = 80
_SEARCHED = timedelta(days=7)


class Browsing:
    """Answers callers; every failure is a `FormularyError`, every call on their behalf leaves an event in the trail.

    All methods raise `ContextError`, `NotAllowed` and `Unavailable` as `Visibility.of`. `browsing` as in the
    latter; an incident that is named constrains what is found in any case.
    """

    def __init__(self, parts: CatalogParts) -> None:
        self._names = NameReader(parts.database)
        self._statistics = StatisticsReader(parts.database)
        self._trail, self._visibility, self._finder = parts.trail, parts.visibility, parts.finder

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
            near: list[NamedWorkflow] = []
            signals: list[str] = []
            if not found:
                for each in await self._finder.nearest(_bare(name), scope=scope):
                    near += (await self._find(_exactly(each), scope=scope))[0][:1]
                signals = await self._finder.nearest_values(Declared.SIGNAL_TYPE, name, scope=scope) or []
            similar = [each.model_copy(update={"matched": MATCHES[-1]}) for each in near]
            record.result = {"total": total}
            return NamesAnswer(
                name=name,
                exact=any(each.matched in MATCHES[:EXACT] for each in found),
                workflows=found or similar,
                total=total,
                notes=[] if found else [_nothing_found(near, signals=signals)],
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
            is_for_people = browsing and scope.context is None
            numbers = await self._statistics.catalog(
                constraints=self._finder.constraints(scope),
                namespaces=scope.namespaces,
                suspended_in=await self._visibility.suspended_in(scope, caller=caller)
                if is_for_people
                else frozenset(),
            )
            whose = await namespaces_with(caller, USE_CONTEXTS, among=scope.concerned)
            searches = await self._statistics.searches(
                CountedFor(namespaces=whose, caller=caller.name, remediation_id=scope.remediation_id),
                since=datetime.now(UTC) - _SEARCHED,
                sure=WEAK_CONFIDENCE,
                queries=_SHOWN_QUERIES,
            )
            others = numbers.others if is_for_people else {}
            without = [name for folded, name in CANONICAL_BY_FOLD.items() if folded not in numbers.signals]
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

    async def _pinned(self, name: str, *, scope: CallScope) -> NamedWorkflow | None:
        """The version that a version id, a URI, or a name with a version stands for."""
        if not (name.startswith((VERSION_ID_PREFIX, URI_SCHEME)) or "@" in name):
            return None
        try:
            found = await self._finder.find_within(parse_reference(name), scope=scope)
        except (NotFound, InvalidInput):
            return None
        matched = "version id" if name.startswith(VERSION_ID_PREFIX) else "name"
        return _named_workflow(found.stored, title=found.parsed.workflow.spec.title, matched=matched)

    async def _named(self, name: str, *, scope: CallScope) -> tuple[list[NamedWorkflow], int]:
        question = _exactly(name)
        part = "-".join(question.name.lower().split())
        return await self._find(replace(question, signal=fold(name), title=name.lower(), part=part), scope=scope)

    async def _find(self, question: NameQuestion, *, scope: CallScope) -> tuple[list[NamedWorkflow], int]:
        constraints = self._finder.constraints(scope)
        found, total = await self._names.find(
            question, constraints=constraints, namespaces=scope.namespaces, limit=_SHOWN_NAMES
        )
        return [_named_workflow(stored, title=title, matched=matched) for stored, title, matched in found], total


def _exactly(name: str) -> NameQuestion:
    """A workflow's name, alone or after its namespace."""
    namespace, _, bare = name.rpartition("/")
    return NameQuestion(name=bare, namespace=namespace)


def _named_workflow(stored: StoredVersion, *, title: str, matched: str) -> NamedWorkflow:
    return NamedWorkflow(
        workflow_id=stored.workflow_id,
        version=stored.version,
        version_id=stored.version_id,
        title=visible(title) or stored.name.replace("-", " ").capitalize(),
        matched=matched,
        uri=workflow_uri(namespace=stored.namespace, name=stored.name),
    )


def _nothing_found(near: Sequence[NamedWorkflow], *, signals: Sequence[str]) -> str:
    these = "; these are the nearest" if near else ""
    meant = f"; did you mean the signal {' or '.join(signals)}?" if signals else ""
    instead = "" if near or signals else "; give a part of a name, or search for the symptom in words"
    return f"nothing has this name{these}{meant}{instead}"


def _bare(name: str) -> str:
    """The part of a name that names are compared with."""
    return "-".join(name.rpartition("/")[2].partition("@")[0].lower().split())


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
