"""Where more workflows are visible than are compared exactly, sketches lose nothing that matters; below, nothing."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import asyncpg
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pgvector.asyncpg import register_vector

from formulary_catalog.domain.search.fit import MEANING_WEIGHT
from formulary_catalog.domain.search.label_weights import SIGNAL_WEIGHT
from formulary_catalog.domain.workflows.labels import DIMENSIONS, Constraints
from formulary_catalog.embedding.model import VECTOR_DIMENSIONS
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.search.candidates import DECLARING, EXACT_UP_TO, NEAREST
from formulary_catalog.store.search.distances import ModelVector
from formulary_catalog.store.search.statement import CandidateQuery, CandidateReader, Candidates
from support.databases import migrated_database

MANY, FEW = EXACT_UP_TO + 1_000, 2_000
TOPICS, SPREAD = 300, 0.6
BEST, QUESTIONS, RECALL = 10, 100, 0.995
MODEL = "model"
COMMON, RARE = "oomkilled", "evicted"
PRODUCTION = Constraints(values={"environment": frozenset({"production"})})
Vectors = npt.NDArray[np.float32]
few_examples = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
questions = st.integers(0, 2**32 - 1)
_VERSION = ("version_id", "tenant_id", "namespace", "name", "version", "content_hash", "text_hash", "index_hash")
_SEARCH = ("version_id", "tenant_id", "namespace", "name", "signal_type", "environment", "model_id", "emb")
_UNDECLARED = [each for each in DIMENSIONS if each not in ("signal_type", "environment")]
_COPIED = ", ".join(_SEARCH)
_STAGING = f"create temporary table staging as select {_COPIED} from workflow_search with no data"
_INSERT = f"""
insert into workflow_search ({_COPIED}, {", ".join(_UNDECLARED)}, signal_name, leading_row, signal_types, custom,
    detected, exclusion_text, lexemes)
select {_COPIED}, {", ".join("'{}'" for _ in _UNDECLARED)}, signal_type, true, array[signal_type], '{{}}',
    '{{}}', '', ''
from staging
"""


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """The workflows of one namespace by number: their vectors, and whether they declare the rare signal, production."""

    namespace: str
    vectors: Vectors
    rare: npt.NDArray[np.bool_]
    production: npt.NDArray[np.bool_]

    def scores(self, query: Vectors, *, signal: str = "") -> npt.NDArray[np.float64]:
        """What orders them, in log odds."""
        declared = self.rare if signal == RARE else ~self.rare
        scores: npt.NDArray[np.float64] = MEANING_WEIGHT * (self.vectors @ query).astype(np.float64)
        return scores + SIGNAL_WEIGHT * declared if signal else scores

    def names(self, numbers: npt.NDArray[np.int64]) -> set[str]:
        return {f"w{number:05}" for number in numbers.tolist()}


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """A namespace with more workflows than are compared exactly, and one with fewer."""

    many: Tenant
    few: Tenant
    reader: CandidateReader

    async def found(
        self, tenant: Tenant, query: Vectors, *, signal: str = "", constraints: Constraints | None = None
    ) -> Candidates:
        question = CandidateQuery(
            constraints=constraints or Constraints(), words=["memory"], vector=ModelVector(MODEL, query), signal=signal
        )
        return await self.reader.read(question, namespaces=frozenset({tenant.namespace}))


@pytest.fixture(scope="module")
async def catalog(postgres: EmbeddedPostgres) -> AsyncIterator[Catalog]:
    """Vectors lie around topics, as those of texts do; one workflow in fifty declares the rare signal."""
    async with migrated_database(postgres) as dsn:
        tenants = [_tenant("many", MANY), _tenant("few", FEW)]
        await _store(tenants, dsn=dsn)
        async with Database.opened(dsn, role=Role.SERVER, deadline=30) as database:
            yield Catalog(many=tenants[0], few=tenants[1], reader=CandidateReader(database))


async def test_the_best_ten_of_many_are_found_as_if_all_were_compared(catalog: Catalog) -> None:
    shares = []
    for seed in range(QUESTIONS):
        query, signal = _query(seed), ("", COMMON, RARE)[seed % 3]
        found = await catalog.found(catalog.many, query, signal=signal)
        best = np.argsort(-catalog.many.scores(query, signal=signal))[:BEST]
        shares.append(len(catalog.many.names(best) & _names(found)) / BEST)
    assert np.mean(shares) >= RECALL


@few_examples
@given(seed=questions)
async def test_the_nearest_of_many_that_declare_the_signal_are_exactly_those(catalog: Catalog, seed: int) -> None:
    query = _query(seed)
    found = await catalog.found(catalog.many, query, signal=RARE)
    nearest = np.argsort(-np.where(catalog.many.rare, catalog.many.scores(query), -np.inf))[:DECLARING]
    assert found.signal_declared
    assert (found.total, found.compared) == (MANY, MANY)
    assert catalog.many.names(nearest) <= _names(found)
    assert await catalog.found(catalog.many, query, signal=RARE) == found


@few_examples
@given(seed=questions, signal=st.sampled_from(["", COMMON, RARE]))
async def test_of_few_the_nearest_are_exactly_those(catalog: Catalog, seed: int, signal: str) -> None:
    query = _query(seed)
    found = await catalog.found(catalog.few, query, signal=signal)
    expected = catalog.few.names(np.argsort(-catalog.few.scores(query))[:NEAREST])
    if signal:
        declared = catalog.few.rare if signal == RARE else ~catalog.few.rare
        best = np.argsort(-np.where(declared, catalog.few.scores(query), -np.inf))[:DECLARING]
        expected |= catalog.few.names(best)
    assert found.total == FEW
    assert _names(found) == expected


@few_examples
@given(seed=questions)
async def test_a_label_makes_a_search_of_many_exact(catalog: Catalog, seed: int) -> None:
    query = _query(seed)
    found = await catalog.found(catalog.many, query, constraints=PRODUCTION)
    nearest = np.argsort(-np.where(catalog.many.production, catalog.many.scores(query), -np.inf))[:NEAREST]
    assert found.total == catalog.many.production.sum()
    assert _names(found) == catalog.many.names(nearest)


async def test_a_signal_that_nobody_declares_is_not_declared(catalog: Catalog) -> None:
    found = await catalog.found(catalog.many, _query(1), signal="nodenotready")
    assert not found.signal_declared
    assert len(found.evidence) == NEAREST


def _names(found: Candidates) -> set[str]:
    return {each.name for each in found.evidence}


def _tenant(namespace: str, count: int) -> Tenant:
    rng = np.random.default_rng(count)
    return Tenant(
        namespace=namespace,
        vectors=_unit(_topics()[rng.integers(TOPICS, size=count)] + SPREAD * _unit(_random(rng, count))),
        rare=rng.random(count) < 0.02,
        production=rng.random(count) < 0.3,
    )


def _query(seed: int) -> Vectors:
    rng = np.random.default_rng(seed)
    query: Vectors = _unit(_topics()[rng.integers(TOPICS, size=1)] + SPREAD * _unit(_random(rng, 1)))[0]
    return query


def _topics() -> Vectors:
    return _unit(_random(np.random.default_rng(0), TOPICS))


def _random(rng: np.random.Generator, count: int) -> Vectors:
    return rng.standard_normal((count, VECTOR_DIMENSIONS), np.float32)


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


async def _store(tenants: Sequence[Tenant], *, dsn: str) -> None:
    """The rows that the writer would have left, in bulk: to apply so many manifests takes minutes."""
    connection = await asyncpg.connect(dsn, server_settings={"search_path": "formulary, public"})
    try:
        await register_vector(connection)
        for tenant in tenants:
            name = tenant.namespace
            id_ = await connection.fetchval("insert into tenant (namespace) values ($1) returning id", name)
            numbers = [f"w{number:05}" for number in range(len(tenant.vectors))]
            await connection.copy_records_to_table(
                "workflow_version",
                records=[
                    (f"{name}/{each}", id_, name, each, "1", "", "", "", "Active", "test", "{}") for each in numbers
                ],
                columns=(*_VERSION, "status", "source", "document"),
            )
            await connection.execute(_STAGING)
            await connection.copy_records_to_table(
                "staging",
                records=[
                    (
                        *(f"{name}/{each}", id_, name, each, RARE if rare else COMMON),
                        *(["production" if production else "staging"], MODEL, vector),
                    )
                    for each, rare, production, vector in zip(
                        numbers, tenant.rare.tolist(), tenant.production.tolist(), tenant.vectors, strict=True
                    )
                ],
                columns=_SEARCH,
            )
            await connection.execute(_INSERT)
            await connection.execute("drop table staging")
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()
