"""The scores and the order that the search statement computes, against the formulas in Python."""

import itertools
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formulary_catalog.domain.labels import Constraints
from formulary_catalog.domain.scoring import SCORE_DIGITS, SearchMode, hybrid, scaled
from formulary_catalog.store.catalog import CatalogWriter
from formulary_catalog.store.database import Database, Role
from formulary_catalog.store.embedded import EmbeddedPostgres
from formulary_catalog.store.search import Candidate, Plan, RankQuery, SearchPage, SearchStore
from support import manifest
from support.databases import migrated_database
from support.filling import entry

LAST_DIGIT = 1.01 * 10**-SCORE_DIGITS  # PostgreSQL rounds a decimal, Python a binary fraction
NAMES = ("a", "a-b", "ab", "a.b", "b", "a0", "c")
WORDS = ("memory", "restart", "restarts", "the", "KubePodCrashLooping", "exit", "137", "ß", "…")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)


@dataclass(frozen=True)
class Workflow:
    """What the rank of one workflow hangs on; `cosine` is that to every query, None without a vector."""

    namespace: str
    name: str
    text: str
    cosine: float | None
    generic: bool


workflows = st.builds(
    Workflow,
    namespace=st.sampled_from("ab"),
    name=st.sampled_from(NAMES),
    text=texts,
    cosine=st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0]) | st.floats(-1, 1),
    generic=st.booleans(),
)
catalogs = st.lists(workflows, min_size=1, max_size=8, unique_by=lambda each: (each.namespace, each.name))


class Ranking:
    """A store in which each example has namespaces and a model of its own."""

    def __init__(self, *, writer: CatalogWriter, reader: SearchStore) -> None:
        self._writer = writer
        self._reader = reader
        self._numbers = itertools.count()

    async def page(self, catalog: list[Workflow], *, query: str, limit: int, with_vector: bool = True) -> SearchPage:
        """Store the catalog and search it, with risk tolerance as the label in which some are generic."""
        number = next(self._numbers)
        for workflow in catalog:
            await self._store(workflow, number=number)
        rank = RankQuery(text=query, vector=_vector(1) if with_vector else None, model_id=f"model{number}")
        plan = Plan(constraints=Constraints(values={"risk_tolerance": frozenset({"low"})}), rank=rank)
        visible = frozenset({f"a{number}", f"b{number}"})
        return await self._reader.search(query=query, plan=lambda _: plan, namespaces=visible, limit=limit)

    async def _store(self, workflow: Workflow, *, number: int) -> None:
        labels = manifest.workflow("")["spec"]["labels"] | ({} if workflow.generic else {"riskTolerance": "low"})
        document = manifest.workflow(workflow.name, what=workflow.text, labels=labels)
        stored = entry(document, namespace=f"{workflow.namespace}{number}")
        model_id = f"model{number}" if workflow.cosine is not None else f"other{number}"
        vector = _vector(workflow.cosine or 0)
        await self._writer.save_vectors({stored.text_hash: vector}, model_id=model_id)
        await self._writer.apply(stored, model_id=model_id)


def _vector(cosine: float) -> npt.NDArray[np.float32]:
    vector = np.zeros(384, dtype=np.float32)
    vector[:2] = cosine, math.sqrt(1 - cosine**2)
    return vector


@pytest.fixture(scope="module")
async def ranking(postgres: EmbeddedPostgres) -> AsyncIterator[Ranking]:
    async with migrated_database(postgres) as dsn:
        writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
        reading = await Database.open(dsn, role=Role.SERVER, deadline=30)
        yield Ranking(writer=CatalogWriter(writing), reader=SearchStore(reading))
        await writing.close()
        await reading.close()


def _rank(candidate: Candidate) -> tuple[int, float, str, str]:
    return candidate.generic_labels, -candidate.score, candidate.name, candidate.namespace


quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(catalog=catalogs, query=texts)
async def test_hybrid_scores_equal_the_formula(ranking: Ranking, catalog: list[Workflow], query: str) -> None:
    page = await ranking.page(catalog, query=query, limit=50)
    found = page.candidates
    assert len(found) == len(catalog)
    if page.mode is SearchMode.LABELS_ONLY:
        assert page.usable_words == 0
        expected = [0.0] * len(found)
    else:
        assert page.mode is SearchMode.HYBRID
        cosines = [candidate.cosine for candidate in found if candidate.cosine is not None]
        expected = hybrid(cosines=cosines, lexical=[candidate.lexical for candidate in found])
    assert [candidate.score for candidate in found] == pytest.approx(expected, abs=LAST_DIGIT)


@quick
@given(catalog=catalogs, query=texts)
async def test_lexical_scores_equal_the_formula(ranking: Ranking, catalog: list[Workflow], query: str) -> None:
    page = await ranking.page(catalog, query=query, limit=50, with_vector=False)
    expected = scaled([candidate.lexical for candidate in page.candidates]) if page.usable_words else [0.0] * page.total
    assert page.mode is (SearchMode.LEXICAL if page.usable_words else SearchMode.LABELS_ONLY)
    assert [candidate.score for candidate in page.candidates] == pytest.approx(expected, abs=LAST_DIGIT)
    assert {candidate.cosine for candidate in page.candidates} == {None}


@quick
@given(catalog=catalogs, query=texts, limit=st.integers(1, 8))
async def test_a_page_is_the_beginning_of_the_whole_order(
    ranking: Ranking, catalog: list[Workflow], query: str, limit: int
) -> None:
    whole = await ranking.page(catalog, query=query, limit=50)
    keys = [_rank(candidate) for candidate in whole.candidates]
    assert keys == sorted(keys)
    page = await ranking.page(catalog, query=query, limit=limit)
    assert [candidate.name for candidate in page.candidates] == [c.name for c in whole.candidates][:limit]
    assert page.total == whole.total == len(catalog)


@quick
@given(catalog=catalogs)
async def test_the_cosine_is_that_of_the_vectors(ranking: Ranking, catalog: list[Workflow]) -> None:
    unique = list({workflow.name: workflow for workflow in catalog}.values())  # equal texts would share a vector
    page = await ranking.page(unique, query="memory", limit=50)
    planned = {workflow.name: workflow.cosine for workflow in unique}
    assert {candidate.name: candidate.cosine for candidate in page.candidates} == pytest.approx(planned, abs=1e-6)


@settings(quick, max_examples=20)
@given(catalog=catalogs, data=st.data())
async def test_one_workflow_without_a_vector_of_this_model_makes_the_search_lexical(
    ranking: Ranking, catalog: list[Workflow], data: st.DataObject
) -> None:
    odd = data.draw(st.sampled_from(catalog))
    mixed = [replace(each, cosine=None) if each == odd else each for each in catalog]
    page = await ranking.page(mixed, query="memory", limit=50)
    assert page.mode is SearchMode.LEXICAL


async def test_an_empty_answer_keeps_the_mode_that_could_have_ranked(ranking: Ranking) -> None:
    assert (await ranking.page([], query="memory", limit=5)).mode is SearchMode.HYBRID
    assert (await ranking.page([], query="memory", limit=5, with_vector=False)).mode is SearchMode.LEXICAL
    assert (await ranking.page([], query="the …", limit=5)).mode is SearchMode.LABELS_ONLY
