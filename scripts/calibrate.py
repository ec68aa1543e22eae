"""Fits the confidence to the judged queries that are there to tune on, and writes the coefficients where they are used.

`make calibrate`, whenever the formula of the score, the synonyms or the embedding model change.
"""

import asyncio
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from bench_quality import MANIFESTS, QUERIES
from quality_judgements import Judgement, plan_of, read_entries, read_judgements, signal_types

from formulary_catalog.domain import confidence
from formulary_catalog.domain.confidence import Hints, hints
from formulary_catalog.domain.evidence import Evidence
from formulary_catalog.domain.scoring import SearchMode, in_order
from formulary_catalog.domain.terms import Term
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.search.planning import SearchPlan
from formulary_catalog.store.database import Database, Role
from formulary_catalog.store.embedded import EmbeddedPostgres
from formulary_catalog.store.pool import Plan, Pool
from formulary_catalog.store.search import SearchStore
from support.databases import migrated_database
from support.serving import load

PAGE = 10
"""Hits of a search that count, as many as an answer has."""
FIRST_WEIGHT = 10.0
"""The first hit counts as much as all others together, about: it is the one that is acted on."""
TAKEN_AWAY_WEIGHT = 0.05
"""Each query is asked once more of a catalog without its right answers, which counts for a little: the few queries that
nothing fits leave many workflows allowed, and without these a single allowed one would always seem right."""
RIDGE = 0.003
NEWTON_STEPS = 25
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A judged query with the evidence that a search of it has."""

    judgement: Judgement
    terms: tuple[Term, ...]
    pool: Pool


async def ask(judgements: Sequence[Judgement], *, embedder: Embedder, postgres: EmbeddedPostgres) -> list[Asked]:
    """The evidence of each query, from a database with the starter catalog."""
    signals = signal_types(read_entries(MANIFESTS))
    async with migrated_database(postgres) as dsn:
        await load([MANIFESTS], dsn=dsn, embedder=embedder)
        database = await Database.open(dsn, role=Role.SERVER, deadline=30)
        try:
            store = SearchStore(database)
            plans = [plan_of(judgement, signals=signals) for judgement in judgements]
            return [
                Asked(
                    judgement=judgement, terms=plan.terms, pool=await _pool(plan, judgement, store=store, of=embedder)
                )
                for judgement, plan in zip(judgements, plans, strict=True)
            ]
        finally:
            await database.close()


async def _pool(plan: SearchPlan, judgement: Judgement, *, store: SearchStore, of: Embedder) -> Pool:
    stored = Plan(
        constraints=plan.constraints,
        words=[term.word for term in plan.terms],
        vectors={of.model_id: of.embed_query(plan.parsed.text)},
    )
    found = await store.search(query=judgement.query, plan=lambda _: stored, page=lambda _: [], namespaces=None)
    return found.pool


def examples(asked: Sequence[Asked], *, mode: SearchMode) -> Iterator[tuple[Hints, bool, float]]:
    """What spoke for each hit, whether it was right, and how much it counts."""
    for each in asked:
        yield from _hits(each, each.pool.evidence, mode=mode, weight=1.0)
        wrong = [one for one in each.pool.evidence if not each.judgement.grade(one.name)]
        yield from _hits(each, wrong, mode=mode, weight=TAKEN_AWAY_WEIGHT)


def _hits(
    asked: Asked, evidence: Sequence[Evidence], *, mode: SearchMode, weight: float
) -> Iterator[tuple[Hints, bool, float]]:
    placed = in_order(evidence, terms=asked.terms, usable=asked.pool.usable, mode=mode)
    speaking = hints([(each.evidence, each.fit) for each in placed])
    for place, (each, values) in enumerate(zip(placed[:PAGE], speaking, strict=False)):
        right = asked.judgement.grade(each.evidence.name) > 0
        yield values, right, weight * (FIRST_WEIGHT if place == 0 else 1.0)


def fitted(rows: Sequence[tuple[Hints, bool, float]], *, used: Sequence[str]) -> Hints:
    """The coefficients by Newton's method; 0 for hints that are not `used`."""
    columns = [Hints._fields.index(name) for name in used]
    given = np.array([values for values, _, _ in rows], dtype=np.float64)[:, columns]
    right = np.array([right for _, right, _ in rows], dtype=np.float64)
    weights = np.array([weight for _, _, weight in rows], dtype=np.float64)
    weights /= weights.sum()
    ridge = RIDGE * np.diag([0.0 if name == "constant" else 1.0 for name in used])
    coefficients = np.zeros(len(columns))
    for _ in range(NEWTON_STEPS):
        likely = 1 / (1 + np.exp(-(given @ coefficients)))
        gradient = given.T @ (weights * (likely - right)) + ridge @ coefficients
        curvature = (given * (weights * likely * (1 - likely))[:, None]).T @ given + ridge
        coefficients -= np.linalg.solve(curvature, gradient)
    values = dict.fromkeys(Hints._fields, 0.0) | {
        name: round(float(value), 2) for name, value in zip(used, coefficients, strict=True)
    }
    return Hints(**values)


def written(source: str, *, name: str, coefficients: Hints) -> str:
    """The source with the line of one constant replaced."""
    return re.sub(rf"^{name} = .*$", f"{name} = {coefficients}", source, flags=re.MULTILINE)


def main() -> None:
    """Ask, fit, write, print."""
    judgements = [each for each in read_judgements(QUERIES) if each.part == "tune"]
    with tempfile.TemporaryDirectory(prefix="formulary-calibrate-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "data") as postgres:
            asked = asyncio.run(ask(judgements, embedder=load_embedder(), postgres=postgres))
    target = Path(confidence.__file__)
    source = target.read_text(encoding="utf-8")
    for name, mode, used in (
        ("BY_MEANING", SearchMode.HYBRID, Hints._fields),
        ("BY_WORDS", SearchMode.LEXICAL, ("constant", "covered", "held", "odds")),
    ):
        coefficients = fitted(list(examples(asked, mode=mode)), used=used)
        print(f"{name} = {coefficients}")
        source = written(source, name=name, coefficients=coefficients)
    target.write_text(source, encoding="utf-8")


if __name__ == "__main__":
    main()
