"""What the database says about a candidate is true: its cosine, where the words of the query stand, who is nearest."""

import itertools
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formulary_catalog.domain.evidence import Place
from formulary_catalog.domain.labels import Constraints
from formulary_catalog.store.catalog import CatalogWriter
from formulary_catalog.store.database import Connection, Database, Role
from formulary_catalog.store.embedded import EmbeddedPostgres
from formulary_catalog.store.entering import enter
from formulary_catalog.store.pool import POOL, Plan, Pool
from formulary_catalog.store.search import SearchStore
from formulary_catalog.store.texts import WEIGHTS
from support import manifest
from support.databases import migrated_database
from support.filling import entry

WORDS = ("memory", "restart", "KubePodCrashLooping", "exit", "137", "straße")
STOP_WORDS = ("the", "of")
PHRASES = ("exit 137", "restart memory")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3)
WRITTEN = st.lists(
    st.sampled_from(
        [
            *(
                "out-of-memory",
                "don't",
                "'quoted'",
                "back\\slash",
                "https://example.org/a?b=1",
                "a/b.c",
                "10.0.0.1",
                "-137",
            ),
            *(
                "Größe",
                "straße",
                "memory",
                "memories",
                "running",
                "the",
                "x" * 3_000,
                "κόσμε",
                "v1.2.3",
                "user@host.org",
            ),
        ]
    )
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8),
    min_size=1,
    max_size=4,
)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LABELS_OF_EVERY_SIZE = [*range(0, 60, 4), 60, 62, 64, 66, 68, 70, 80, 100, 150, 400, 2000]


@dataclass(frozen=True)
class Workflow:
    """Texts by place, word by word, and the cosine to every query; None without a vector of the model that is asked."""

    keywords: tuple[str, ...]
    when_to_use: tuple[str, ...]
    what: tuple[str, ...]
    signal: str
    cosine: float | None

    def place(self, word: str) -> Place:
        """The most telling place of a word."""
        where = {
            Place.NAME: self.keywords,
            Place.WHEN_TO_USE: self.when_to_use,
            Place.WHAT: self.what,
            Place.SIGNAL: (self.signal,),
        }
        return max((place for place, words in where.items() if set(word.split()) <= set(words)), default=Place.NONE)


workflows = st.builds(
    Workflow,
    keywords=texts.map(tuple),
    when_to_use=texts.map(tuple),
    what=texts.map(tuple),
    signal=st.sampled_from(WORDS),
    cosine=st.sampled_from([None, -1.0, 0.0, 0.25, 1.0]) | st.floats(-1, 1),
)


class Asking:
    """A store in which each catalog has a namespace and a model of its own."""

    def __init__(self, *, writer: CatalogWriter, database: Database) -> None:
        self.writer = writer
        self.database = database
        self.reader = SearchStore(database)
        self._numbers = itertools.count()

    async def pool(
        self,
        documents: Sequence[dict[str, Any]],
        *,
        cosines: Sequence[float | None],
        words: Sequence[str],
        constraints: Constraints | None = None,
    ) -> Pool:
        number = next(self._numbers)
        for document, cosine in zip(documents, cosines, strict=True):
            stored = entry(document, namespace=f"n{number}")
            model_id = f"model{number}" if cosine is not None else f"other{number}"
            await self.writer.apply(stored, model_id=model_id, vector=_vector(cosine or 0))
        wanted = constraints or Constraints()
        plan = Plan(constraints=wanted, words=words, vectors={f"model{number}": _vector(1)})
        found = await self.reader.search(
            query="", plan=lambda _: plan, page=lambda _: (), namespaces=frozenset({f"n{number}"})
        )
        return found.pool


def _vector(cosine: float) -> npt.NDArray[np.float32]:
    vector = np.zeros(384, dtype=np.float32)
    vector[:2] = cosine, math.sqrt(1 - cosine**2)
    return vector


@pytest.fixture(scope="module")
async def asking(postgres: EmbeddedPostgres) -> AsyncIterator[Asking]:
    async with migrated_database(postgres) as dsn:
        writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
        reading = await Database.open(dsn, role=Role.SERVER, deadline=30)
        yield Asking(writer=CatalogWriter(writing), database=reading)
        await writing.close()
        await reading.close()


def _document(workflow: Workflow, *, name: str) -> dict[str, Any]:
    # The number keeps texts apart that would otherwise share a vector.
    document = manifest.workflow(name, what=" ".join([*workflow.what, f"n{name}"]), keywords=list(workflow.keywords))
    document["spec"]["description"]["whenToUse"] = " ".join(workflow.when_to_use)
    document["spec"]["labels"]["signalType"] = [workflow.signal]
    document["spec"]["actionType"] = "Observe"
    return document


@quick
@given(
    catalog=st.lists(workflows, min_size=1, max_size=6), words=st.lists(st.sampled_from(WORDS + STOP_WORDS + PHRASES))
)
async def test_each_term_is_found_in_its_most_telling_place(
    asking: Asking, catalog: list[Workflow], words: list[str]
) -> None:
    documents = [_document(workflow, name=str(number)) for number, workflow in enumerate(catalog)]
    pool = await asking.pool(documents, cosines=[workflow.cosine for workflow in catalog], words=words)
    assert pool.usable == tuple(word not in STOP_WORDS for word in words)
    assert (pool.total, len(pool.evidence)) == (len(catalog), len(catalog))
    for evidence in pool.evidence:
        workflow = catalog[int(evidence.name)]
        assert evidence.places == tuple(workflow.place(word) for word in words)


@quick
@given(
    fields=st.lists(WRITTEN.map(" ".join), min_size=2, max_size=2),
    words=st.lists(WRITTEN.map(" ".join), min_size=1, max_size=4, unique=True),
)
async def test_a_term_stands_where_postgresql_finds_it(asking: Asking, fields: list[str], words: list[str]) -> None:
    document = manifest.workflow("own", what=fields[0], keywords=fields[1:])
    pool = await asking.pool([document], cosines=[None], words=words)

    async def found(connection: Connection) -> list[Place]:
        await enter(connection, namespaces=None)
        return [
            max(
                [
                    place
                    for place, weight in WEIGHTS.items()
                    if await connection.fetchval(
                        "select ts_filter(lexemes, $3::text[]::\"char\"[]) @@ plainto_tsquery('english', $2) "
                        "from workflow_search where version_id = $1 limit 1",
                        pool.evidence[0].version_id,
                        word,
                        [weight.lower()],
                    )
                ],
                default=Place.NONE,
            )
            for word in words
        ]

    assert pool.evidence[0].places == tuple(await asking.database.read(found))


@quick
@given(cosines=st.lists(st.none() | st.floats(-1, 1), min_size=1, max_size=8))
async def test_the_cosine_is_that_of_the_vectors_unless_most_have_none(
    asking: Asking, cosines: list[float | None]
) -> None:
    documents = [manifest.workflow(f"w{number}") for number in range(len(cosines))]
    pool = await asking.pool(documents, cosines=cosines, words=["memory"])
    found = {evidence.name: evidence.cosine for evidence in pool.evidence}
    known = sum(cosine is not None for cosine in cosines)
    if 2 * known > len(cosines):
        assert pool.compared == known
        assert found == {f"w{number}": pytest.approx(cosine, abs=1e-6) for number, cosine in enumerate(cosines)}
    else:
        assert pool.compared is None
        assert found == {f"w{number}": None for number in range(len(cosines))}


async def test_where_more_are_allowed_the_pool_holds_the_exact_ones_first_and_then_the_nearest(asking: Asking) -> None:
    count, exact = POOL + 40, 30
    farthest_first = np.linspace(-0.9, 0.9, count)
    order = np.random.default_rng(7).permutation(count).tolist()
    owned: list[dict[str, Any]] = [{"customLabels": {"team": ["shop"]}}] * exact + [{}] * (count - exact)
    documents = [manifest.workflow(f"w{number}", **owned[number]) for number in order]
    pool = await asking.pool(
        documents,
        cosines=[float(farthest_first[number]) for number in order],
        words=["memory"],
        constraints=Constraints(custom={"team": frozenset({"shop"})}),
    )
    nearest = range(count - (POOL - exact), count)
    assert {evidence.name for evidence in pool.evidence} == {f"w{number}" for number in (*range(exact), *nearest)}
    assert (pool.total, pool.compared) == (count, count)


@pytest.mark.parametrize("vectors", [True, False])
async def test_no_labels_are_too_long_to_be_stored_and_found(asking: Asking, *, vectors: bool) -> None:
    """Rows that do not fit into the covering index are read from the table: the answer is the same."""
    documents = []
    for size in LABELS_OF_EVERY_SIZE:
        document = manifest.workflow(f"w{size}")
        # Distinct hexadecimal words cannot be compressed much.
        words = [format(hash((size, number)) & 0xFFFFFFFFFFFF, "x") for number in range(size)]
        document["spec"]["labels"] |= {"component": ["v1/Pod", *words], "severity": ["critical", *words[::2]]}
        document["spec"]["customLabels"] = {"team": words[:50] or ["a"]}
        documents.append(document)
    cosines = [0.5 if vectors else None for _ in documents]
    pool = await asking.pool(documents, cosines=cosines, words=["memory"])
    assert {evidence.name for evidence in pool.evidence} == {f"w{size}" for size in LABELS_OF_EVERY_SIZE}
    assert pool.total == len(documents)
