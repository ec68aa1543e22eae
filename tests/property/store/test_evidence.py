"""What the database says about a candidate is true: its cosine, where the words of the query stand, who is nearest."""

import itertools
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.search.label_weights import SIGNAL_WEIGHT, severity_evidence
from formulary_catalog.domain.text import WordPlace
from formulary_catalog.domain.workflows.labels import DIMENSIONS, Constraints, WorkflowLabels
from formulary_catalog.store.database.connection import Connection, Database, Role
from formulary_catalog.store.database.tenancy import enter
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.search.candidates import ALL, DECLARING, NEAREST
from formulary_catalog.store.search.distances import ModelVector
from formulary_catalog.store.search.lexemes import WEIGHTS
from formulary_catalog.store.search.statement import CandidateQuery, CandidateReader, Candidates
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.databases import migrated_database
from support.examples import examples
from support.filling import entry
from support.services import PATIENT

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
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(str.strip),
    min_size=1,
    max_size=4,
)
some = examples(few=8, many=60)
LABELS_OF_EVERY_SIZE = [*range(0, 60, 4), 60, 62, 64, 66, 68, 70, 80, 100, 150, 400, 2000]


@dataclass(frozen=True)
class Workflow:
    """Texts by place, word by word, and the cosine to every query; None without a vector of the model that is asked."""

    keywords: tuple[str, ...]
    when_to_use: tuple[str, ...]
    what: tuple[str, ...]
    signal: str
    cosine: float | None

    def place(self, word: str) -> WordPlace:
        """The most telling place of a word."""
        where = {
            WordPlace.NAME: self.keywords,
            WordPlace.WHEN_TO_USE: self.when_to_use,
            WordPlace.WHAT: self.what,
            WordPlace.SIGNAL: (self.signal,),
        }
        return max((place for place, words in where.items() if set(word.split()) <= set(words)), default=WordPlace.NONE)


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
        self.reader = CandidateReader(database)
        self._numbers = itertools.count()

    async def candidates(
        self,
        documents: Sequence[dict[str, Any]],
        *,
        cosines: Sequence[float | None],
        words: Sequence[str],
        constraints: Constraints | None = None,
        signal: str = "",
        severity: str = "",
    ) -> Candidates:
        number = next(self._numbers)
        for document, cosine in zip(documents, cosines, strict=True):
            stored = entry(document, namespace=f"n{number}")
            model_id = f"model{number}" if cosine is not None else f"other{number}"
            await self.writer.apply(stored, model_id=model_id, vector=_vector(cosine or 0))
        question = CandidateQuery(
            constraints=constraints or Constraints(),
            words=words,
            vector=ModelVector(f"model{number}", _vector(1)),
            signal=signal,
            severity=severity,
        )
        return await self.reader.read(question, namespaces=frozenset({f"n{number}"}))


def _vector(cosine: float) -> npt.NDArray[np.float32]:
    vector = np.zeros(384, dtype=np.float32)
    vector[:2] = cosine, math.sqrt(1 - cosine**2)
    return vector


@pytest.fixture(scope="module")
async def asking(postgres: EmbeddedPostgres) -> AsyncIterator[Asking]:
    async with migrated_database(postgres) as dsn:
        writing = await Database.open(dsn, role=Role.WRITER, deadline=PATIENT)
        reading = await Database.open(dsn, role=Role.SERVER, deadline=PATIENT)
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


@some
@given(
    catalog=st.lists(workflows, min_size=1, max_size=6), words=st.lists(st.sampled_from(WORDS + STOP_WORDS + PHRASES))
)
async def test_each_term_is_found_in_its_most_telling_place(
    asking: Asking, catalog: list[Workflow], words: list[str]
) -> None:
    documents = [_document(workflow, name=str(number)) for number, workflow in enumerate(catalog)]
    found = await asking.candidates(documents, cosines=[workflow.cosine for workflow in catalog], words=words)
    assert found.usable == tuple(word not in STOP_WORDS for word in words)
    assert (found.total, len(found.evidence)) == (len(catalog), len(catalog))
    for evidence in found.evidence:
        workflow = catalog[int(evidence.name)]
        assert evidence.places == bytes(workflow.place(word) for word in words)


@some
@given(
    fields=st.lists(WRITTEN.map(" ".join), min_size=2, max_size=2),
    words=st.lists(WRITTEN.map(" ".join), min_size=1, max_size=4, unique=True),
)
async def test_a_term_stands_where_postgresql_finds_it(asking: Asking, fields: list[str], words: list[str]) -> None:
    document = manifest.workflow("own", what=fields[0], keywords=fields[1:])
    found = await asking.candidates([document], cosines=[None], words=words)

    async def where(connection: Connection) -> list[WordPlace]:
        await enter(connection, namespaces=None)
        return [
            max(
                [
                    place
                    for place, weight in WEIGHTS.items()
                    if await connection.fetchval(
                        "select ts_filter(lexemes, $3::text[]::\"char\"[]) @@ plainto_tsquery('english', $2) "
                        "from workflow_search where version_id = $1 limit 1",
                        found.evidence[0].version_id,
                        word,
                        [weight.lower()],
                    )
                ],
                default=WordPlace.NONE,
            )
            for word in words
        ]

    assert tuple(found.evidence[0].places) == tuple(await asking.database.read(where))


@some
@given(cosines=st.lists(st.none() | st.floats(-1, 1), min_size=1, max_size=8))
async def test_the_cosine_is_that_of_the_vectors_unless_most_have_none(
    asking: Asking, cosines: list[float | None]
) -> None:
    documents = [manifest.workflow(f"w{number}") for number in range(len(cosines))]
    found = await asking.candidates(documents, cosines=cosines, words=["memory"])
    compared = {evidence.name: evidence.cosine for evidence in found.evidence}
    known = sum(cosine is not None for cosine in cosines)
    if 2 * known > len(cosines):
        assert found.compared == known
        assert compared == {f"w{number}": pytest.approx(cosine, abs=1e-6) for number, cosine in enumerate(cosines)}
    else:
        assert found.compared is None
        assert compared == {f"w{number}": None for number in range(len(cosines))}


@pytest.fixture(scope="module")
async def crowded(asking: Asking) -> dict[str, float]:
    """More workflows than are ranked at once, a quarter of them the team's; the cosine of each."""
    return {f"w{number}": float(cosine) for number, cosine in enumerate(np.linspace(-0.9, 0.9, ALL + 40))}


def _of_the_team(names: Sequence[str]) -> set[str]:
    return set(np.random.default_rng(8).permutation(names)[: len(names) // 4].tolist())


async def test_where_more_are_allowed_the_nearest_are_candidates_whatever_labels_others_declare(
    asking: Asking, crowded: dict[str, float]
) -> None:
    names, team = np.random.default_rng(7).permutation([*crowded]).tolist(), _of_the_team([*crowded])
    owned: dict[str, dict[str, Any]] = {name: {"customLabels": {"team": ["shop"]}} for name in team}
    found = await asking.candidates(
        [manifest.workflow(name, **owned.get(name, {})) for name in names],
        cosines=[crowded[name] for name in names],
        words=["memory"],
        constraints=Constraints(custom={"team": frozenset({"shop"})}),
    )
    nearest = sorted(crowded, key=lambda name: -crowded[name])[:NEAREST]
    declaring = sorted(team, key=lambda name: -crowded[name])[:DECLARING]
    assert {each.name for each in found.evidence} >= {*nearest, *declaring}
    assert len(found.evidence) <= NEAREST + DECLARING
    assert {each.name for each in found.evidence if each.labels} == team & {each.name for each in found.evidence}
    assert (found.total, found.compared) == (len(crowded), len(crowded))


async def test_the_nearest_that_declare_the_signal_and_the_nearest_of_all_come_together(
    asking: Asking, crowded: dict[str, float]
) -> None:
    farthest = sorted(crowded, key=lambda name: crowded[name])[: DECLARING // 2]
    documents = []
    for name in crowded:
        document = manifest.workflow(name)
        document["spec"]["labels"]["signalType"] = ["Evicted" if name in farthest else "OOMKilled"]
        documents.append(document)
    found = await asking.candidates(documents, cosines=[*crowded.values()], words=["memory"], signal="evicted")
    nearest = sorted(crowded, key=lambda name: -crowded[name])[:NEAREST]
    assert {each.name for each in found.evidence} == {*nearest, *farthest}
    assert found.signal_declared


@some
@given(
    declared=st.lists(
        st.tuples(
            st.sampled_from(["OOMKilled", "Evicted", "oomkilled"]),
            st.lists(st.sampled_from(["critical", "Low", "*"]), min_size=1, max_size=2, unique=True),
        ),
        min_size=1,
        max_size=5,
    ),
    signal=st.sampled_from(["oomkilled", "evicted", "nodenotready", ""]),
    severity=st.sampled_from(["critical", "low", "high", "warning", ""]),
)
async def test_what_a_query_mentions_counts_where_it_is_declared_and_excludes_nothing(
    asking: Asking, declared: list[tuple[str, list[str]]], signal: str, severity: str
) -> None:
    documents = []
    for number, (own_signal, own_severities) in enumerate(declared):
        document = manifest.workflow(f"w{number}")
        document["spec"]["labels"] |= {"signalType": [own_signal], "severity": own_severities}
        documents.append(document)
    found = await asking.candidates(
        documents, cosines=[0.5] * len(declared), words=["memory"], signal=signal, severity=severity
    )
    assert found.total == len(declared)
    assert found.signal_declared == any(own.casefold() == signal for own, _ in declared)
    assert {each.name: (each.labels, each.severity) for each in found.evidence} == {
        f"w{number}": (
            SIGNAL_WEIGHT if own.casefold() == signal else 0.0,
            severity_evidence(WorkflowLabels(values={"severity": severities}), mentioned=severity),
        )
        for number, (own, severities) in enumerate(
            (own, frozenset(each.casefold() for each in own_severities)) for own, own_severities in declared
        )
    }


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
    found = await asking.candidates(documents, cosines=cosines, words=["memory"])
    assert {evidence.name for evidence in found.evidence} == {f"w{size}" for size in LABELS_OF_EVERY_SIZE}
    assert found.total == len(documents)


@pytest.mark.long
@pytest.mark.parametrize("dimension", DIMENSIONS)
async def test_no_label_of_any_dimension_is_too_long_to_be_stored_and_found(asking: Asking, dimension: str) -> None:
    """Each counts in what decides whether a row fits into the covering index."""
    documents = []
    for size in LABELS_OF_EVERY_SIZE:
        document = manifest.workflow(f"w{size}")
        words = [format(hash((size, number)) & 0xFFFFFFFFFFFF, "x") for number in range(size)]
        document["spec"]["labels"][to_camel(dimension)] = ["a", *words]
        documents.append(document)
    found = await asking.candidates(documents, cosines=[0.5] * len(documents), words=["memory"])
    assert found.total == len(documents)
