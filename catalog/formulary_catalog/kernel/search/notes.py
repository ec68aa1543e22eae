"""Notes of the answer to a search, next to its hits; halts included.

`kernel.search.pipeline` adds them when the page is ranked. They say what the hits cannot: why there are few, what was
left out, that nothing may run now. `Halted` remembers halts for a second, so that each search need not read them.
"""

from collections.abc import Iterator, Sequence

from cachetools import TTLCache

from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE, SearchMode, WorkflowHit
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.pasted.reading import read_pasted
from formulary_catalog.domain.search.query import ParsedQuery
from formulary_catalog.domain.search.request import DEFAULT_TOP_K, MAX_TOP_K, SearchRequest
from formulary_catalog.domain.visible import first_hidden, visible
from formulary_catalog.domain.workflows.labels import Constraints, nearest_usual, wire_name
from formulary_catalog.kernel.search.planning import SearchPlan
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.halting import HaltReader
from formulary_catalog.store.search.statement import Candidates

_SECONDS = 1.0
_SETS = 1000
_MAX_OTHERS = 10
"""Problems of a long notification that are named, beside those that were searched."""


def search_notes(
    candidates: Candidates,
    *,
    plan: SearchPlan,
    request: SearchRequest,
    mode: SearchMode,
    unfamiliar: Sequence[str],
    hits: Sequence[WorkflowHit],
) -> list[str]:
    """Notes on the request, on the ranking, and on what is missing.

    `unfamiliar`: the given dimensions whose values no workflow declares that the caller may see under its incident.
    `hits`: the page, with what is below `min_confidence`.
    """
    on_hits = [
        *_on_confidence(request, hits=hits),
        *_on_the_rest(candidates, plan=plan, request=request, hits=hits),
    ]
    return [
        *_on_query(request.query),
        *(_unfamiliar(dimension, request=request) for dimension in unfamiliar),
        *_on_ranking(candidates, request=request, mode=mode),
        *(on_hits if candidates.total else _on_emptiness(plan)),
    ]


def _on_query(query: str) -> Iterator[str]:
    """A query is copied from anywhere: what nobody sees in it may part words, and is no reason to refuse it."""
    if (hidden := first_hidden(query, field="query")) is not None:
        yield f"query {hidden.problem}"
    if read_pasted(query).is_over:
        yield "the query says that its alert is resolved; check that something is still wrong before a run"


def on_problems(found: Sequence[tuple[ParsedQuery, float]], *, query: str) -> list[str]:
    """What a query reports if it is several problems, each with the confidence of the first hit on it."""
    if len(found) < 2:
        return []
    pasted = read_pasted(query)
    names = ", ".join(_named(problem) for problem, _ in found)
    weak = ", ".join(problem.problem for problem, sure in found if problem.problem and sure < WEAK_CONFIDENCE)
    without = f"; nothing here is likely for {weak}" if weak else ""
    state = "are resolved" if pasted.is_over else "fire"
    searched = {problem.problem for problem, _ in found}
    others = [name for each in pasted.problems if (name := visible(each.name)) not in searched]
    listed = ", ".join(others[:_MAX_OTHERS])
    more = f" and {len(others) - _MAX_OTHERS} more" if len(others) > _MAX_OTHERS else ""
    unasked = f"; less severe or later, and not searched: {listed}{more}; ask again for them" if others else ""
    return [f"{len(pasted.problems)} problems {state}: {names}; hits say which one they answer{without}{unasked}"]


def _named(problem: ParsedQuery) -> str:
    name = problem.problem or "one without a name"
    return f"{name} ({problem.severity})" if problem.severity else name


def _unfamiliar(dimension: str, *, request: SearchRequest) -> str:
    """The values as they were given, and the usual one that may be meant: it says nothing of what workflows declare."""
    given = list(dict.fromkeys(value.strip() for value in request.labels[dimension]))
    meant = [near for value in given if (near := nearest_usual(dimension, value))]
    hint = f"check the spelling: did you mean {' or '.join(meant)}?" if meant else "check the spelling"
    return f"no workflow you may see declares {wire_name(dimension)} {'/'.join(given)}; {hint}"


def _on_ranking(candidates: Candidates, *, request: SearchRequest, mode: SearchMode) -> Iterator[str]:
    if mode is SearchMode.LEXICAL:
        yield "ranked by words only: the embedding model or its vectors are not available"
    if mode is SearchMode.LABELS_ONLY:
        yield "the query holds no usable word, so the order says nothing about fit; add symptoms in words"
    if mode is SearchMode.HYBRID and candidates.compared is not None and candidates.compared < candidates.total:
        missing = candidates.total - candidates.compared
        yield f"{missing} of the allowed workflows have no vector yet: they rank low or are missing"
    if request.embedding is not None and mode is not SearchMode.HYBRID:
        yield "the given embedding was not used"


def _on_emptiness(plan: SearchPlan) -> Iterator[str]:
    if _is_unconstrained(plan):
        yield "the catalog holds no workflow that you may see; load some before searching"
        return
    yield (
        "nothing is allowed under these labels and the incident's constraints; drop label arguments, filters or "
        "exclude_keywords to widen, and do not run a workflow that was not returned"
    )


def _on_the_rest(
    candidates: Candidates,
    *,
    plan: SearchPlan,
    request: SearchRequest,
    hits: Sequence[WorkflowHit],
) -> Iterator[str]:
    """What a default page leaves out because it hardly fits."""
    if request.top_k is not None:
        return
    if not hits:
        yield _on_nothing(candidates.total, plan=plan)
    elif len(hits) < min(DEFAULT_TOP_K, candidates.total):
        rest = candidates.total - len(hits)
        others = (
            "1 other allowed workflow does not match well and is"
            if rest == 1
            else f"{rest} others do not match well and are"
        )
        shows = "top_k shows more" if candidates.total > MAX_TOP_K else "top_k shows them"
        yield f"{others} left out; {shows}"


def _on_nothing(allowed: int, *, plan: SearchPlan) -> str:
    """Under constraints that leave little, other words of the query do not help."""
    fits = f"nothing that is allowed here fits this query, of {allowed} workflow{'s' if allowed > 1 else ''}"
    if _is_unconstrained(plan):
        return f"{fits}; rephrase the symptom in English, or escalate to a human"
    return (
        f"{fits}: labels, filters or the incident may exclude what does; drop arguments that narrow the search, "
        "rephrase the symptom in English, or escalate to a human"
    )


def _is_unconstrained(plan: SearchPlan) -> bool:
    return plan.constraints == Constraints(strict_keys=plan.constraints.strict_keys) and not plan.narrowing


def _on_confidence(request: SearchRequest, *, hits: Sequence[WorkflowHit]) -> Iterator[str]:
    if not hits:
        return
    dropped = sum(hit.confidence < request.min_confidence for hit in hits)
    if dropped == len(hits):
        yield f"all workflows that fit are below min_confidence {request.min_confidence}; lower it to see them"
    elif dropped:
        yield f"{dropped} of this page are below min_confidence {request.min_confidence} and left out"
    if hits[0].confidence < WEAK_CONFIDENCE:
        yield "weak match: perhaps nothing here fits; read when_to_use in the details before choosing"


class Halted:
    """The halts that would hold for a run. Whether one may begin is never decided by this."""

    def __init__(self, database: Database) -> None:
        self._reader = HaltReader(database)
        self._known: TTLCache[frozenset[str], list[Halt]] = TTLCache(maxsize=_SETS, ttl=_SECONDS)

    async def of(self, context: RequestContext | None) -> list[Halt]:
        """The halts that hold for the runs of an incident; without one those that hold everywhere.

        Raises:
            Unavailable: the database does not answer.
        """
        named = {context.namespace, context.target_namespace} if context is not None else set()
        namespaces = frozenset(named - {""})
        if (known := self._known.get(namespaces)) is None:
            known = self._known[namespaces] = await self._reader.in_force(namespaces)
        return known

    def forget(self) -> None:
        """Read them again next time: one was begun or lifted here."""
        self._known.clear()


def halted_notes(halts: list[Halt]) -> list[str]:
    """What an answer says of them."""
    return [f"{halt}; searches continue, but nothing runs until a person lifts it" for halt in halts]
