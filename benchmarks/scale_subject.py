"""The ways to answer a question that are measured: by the product, by a part of it, by numpy."""

import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from floor import BEST, Floor, Nearest
from formulary_catalog.domain.search.fit import MEANING_WEIGHT
from formulary_catalog.domain.search.query import parse_query
from formulary_catalog.domain.search.terms import query_terms, rare_words
from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import StatementArguments, enter, entered_table
from formulary_catalog.store.search.distances import ModelVector
from formulary_catalog.store.search.filters import label_conditions
from formulary_catalog.store.search.page import PageReader
from formulary_catalog.store.search.statement import CandidateQuery as Sought
from formulary_catalog.store.search.statement import CandidateReader, Candidates
from formulary_catalog.store.workflows.statistics import CatalogNumbers, StatisticsReader
from text_vectors import Vectors, cached_vectors
from workload import Question

SEARCH, CANDIDATES, EXACT, LEXICAL, TRIP = "whole search", "candidates", "exact search", "words only", "SELECT 1"
NUMBERS, SORTED, SCAN = "in numbers", "numpy, sorted", "numpy, scan"
WAYS = (SEARCH, CANDIDATES, EXACT, LEXICAL, NUMBERS, TRIP, SORTED, SCAN)
"""The whole search; its candidates with their words; the exact semantic search alone; without an embedding model; what
`catalog_stats` counts under the same constraints; the floors."""
_SEED = 5
_Found = TypeVar("_Found")
_Reading = Callable[[Connection], Awaitable[_Found]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, and what a search makes of it for the store."""

    question: Question
    vector: Vectors
    sought: Sought

    @property
    def namespaces(self) -> frozenset[str]:
        """What the one who asks may see."""
        return frozenset({self.question.namespace})


class Subject:
    """One catalog in the database and in memory, and the ways to ask it."""

    def __init__(self, database: Database, *, floor: Floor, process: int = 0) -> None:
        """`process` is the id of the back end, whose processor time is noted too; 0 if that is not wanted."""
        self._database = database
        self._candidates, self._pages = CandidateReader(database), PageReader(database)
        self._statistics = StatisticsReader(database)
        self._floor = floor
        self._process = process
        self._known: set[str] = set()
        self._order = random.Random(_SEED)
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.processor: dict[str, list[float]] = defaultdict(list)

    def exact(self, asked: Asked) -> Nearest:
        """What is right."""
        return self._floor.sorted(asked.question, asked.vector)

    def scanned(self, asked: Asked) -> Nearest:
        """What is right, the long way."""
        return self._floor.scan(asked.question, asked.vector)

    async def candidates(self, asked: Asked) -> Candidates:
        """What the store finds."""
        return await self._candidates.read(asked.sought, namespaces=asked.namespaces)

    async def ask(self, asked: Asked, *, ways: Sequence[str] = WAYS) -> None:
        """Answer in each way, in another order each time, and note how long each took.

        What runs first brings the rows into the processor's cache, and what runs next finds them there. numpy, which
        suffers most where they are not, answers once untimed before: it stands for what cannot be beaten.
        """
        exact, arguments = exact_statement(asked)
        blind = replace(asked, sought=replace(asked.sought, vector=None))
        ask: dict[str, Callable[[], Awaitable[None]]] = {
            SEARCH: lambda: self._timed(SEARCH, lambda: self._search(asked)),
            CANDIDATES: lambda: self._timed(CANDIDATES, lambda: self.candidates(asked)),
            EXACT: lambda: self._timed_within(EXACT, asked, lambda connection: connection.fetch(exact, *arguments)),
            LEXICAL: lambda: self._timed(LEXICAL, lambda: self.candidates(blind)),
            NUMBERS: lambda: self._timed(NUMBERS, lambda: self._numbers(asked)),
            TRIP: lambda: self._timed_within(TRIP, asked, lambda connection: connection.fetchval("select 1")),
            SORTED: lambda: self._timed_floor(SORTED, self._floor.sorted, asked),
            SCAN: lambda: self._timed_floor(SCAN, self._floor.scan, asked),
        }
        for way in self._order.sample(ways, len(ways)):
            await ask[way]()

    async def _search(self, asked: Asked) -> None:
        """As the product does it, with its cache of workflows warm."""
        found = await self.candidates(asked)
        best = nearest_of(found)
        if not found.versions or not self._known.issuperset(best):
            await self._pages.read(best, known=self._known, namespaces=asked.namespaces)
            self._known.update(best)
        await self._candidates.unfamiliar(
            {dimension: asked.sought.asked[dimension] for dimension in found.undeclared},
            constraints=Constraints(),
            namespaces=asked.namespaces,
        )

    async def _numbers(self, asked: Asked) -> CatalogNumbers:
        return await self._statistics.catalog(constraints=asked.sought.constraints, namespaces=asked.namespaces)

    async def _within(self, asked: Asked, read: _Reading[_Found]) -> _Found:
        """Read in a transaction that sees what the question may see."""

        async def within(connection: Connection) -> _Found:
            await enter(connection, namespaces=asked.namespaces)
            return await read(connection)

        return await self._database.read(within)

    async def _timed_within(self, way: str, asked: Asked, read: _Reading[object]) -> None:
        """Note what reading takes, without the transaction around it."""

        async def timed(connection: Connection) -> None:
            await self._timed(way, lambda: read(connection))

        await self._within(asked, timed)

    async def _timed_floor(self, way: str, answer: Callable[[Question, Vectors], Nearest], asked: Asked) -> None:
        answer(asked.question, asked.vector)
        started = time.perf_counter()
        answer(asked.question, asked.vector)
        self.seconds[way].append(time.perf_counter() - started)

    async def _timed(self, way: str, operation: Callable[[], Awaitable[object]]) -> None:
        before, started = _processor_seconds(self._process), time.perf_counter()
        await operation()
        self.seconds[way].append(time.perf_counter() - started)
        after = _processor_seconds(self._process)
        if before is not None and after is not None:
            self.processor[way].append(after - before)


def nearest_of(found: Candidates) -> list[str]:
    """The version ids of the best ten candidates, by meaning and labels together."""
    best = sorted(found.evidence, key=lambda each: -(MEANING_WEIGHT * (each.cosine or 0.0) + each.labels))
    return [each.version_id for each in best[:BEST]]


def exact_statement(asked: Asked) -> tuple[str, list[object]]:
    """The least that an exact search has to do: enter, filter, order by meaning, count; no labels and no words."""
    arguments = StatementArguments()
    entering = entered_table(arguments, namespaces=asked.namespaces)
    rules = label_conditions(asked.sought.constraints, arguments)
    distance = f"emb <=> {arguments.add(asked.vector, 'vector')} as distance"
    allowed = " union all ".join(
        f"select version_id, {distance} from workflow_search "
        f"where {slim} and entered.word_in_use is not null and {' and '.join(rules.allowed)}"
        for slim in ("slim", "not slim")
    )
    return (
        f"with {entering}, allowed as materialized ("
        f"select found.* from entered, lateral ({allowed} offset 0) as found) "
        f"select version_id, distance, (select count(*) from allowed) from allowed "
        f"order by distance, version_id limit {BEST}",
        arguments.values,
    )


def prepared(given: Sequence[Question], *, embedder: Embedder) -> list[Asked]:
    """The questions, parsed and embedded as the product does it."""
    texts = [parse_query(question.text).text for question in given]
    return [
        Asked(
            question=question,
            vector=vector,
            sought=Sought(
                constraints=question.constraints,
                words=[term.word for term in query_terms(text)],
                rare=rare_words(query_terms(text)),
                vector=ModelVector(embedder.model_id, vector),
                signal=question.signal,
                severity=question.severity,
                asked=question.constraints.values,
            ),
        )
        for question, text, vector in zip(given, texts, cached_vectors(embedder, texts), strict=True)
    ]


def _processor_seconds(process: int) -> float | None:
    """Processor time that a process has had, to the nanosecond; None where the kernel does not tell."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        return None
