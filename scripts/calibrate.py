"""Fits the weights of the score and the confidence to the judged queries that are there to tune on, and writes them.

`make calibrate`, after a change of the evidence, the synonyms, the judged queries or the embedding model. The queries
that are held back are not read.
"""

import asyncio
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize  # type: ignore[import-untyped]  # it ships no types

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.search import confidence, label_weights
from formulary_catalog.domain.search import fit as fitting
from formulary_catalog.domain.search.candidates import CandidateEvidence
from formulary_catalog.domain.search.confidence import Calibration
from formulary_catalog.domain.search.fit import Wanted, places_found, words_held
from formulary_catalog.domain.search.label_weights import SEVERITY_CONTRADICTED, label_evidence, severity_evidence
from formulary_catalog.domain.search.query import QuerySigns
from formulary_catalog.domain.workflows.labels import Constraints, WorkflowLabels
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.embedding.known_problems import nearest_known
from formulary_catalog.kernel.search.planning import SearchPlan, plan_search
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.search.distances import ModelVector
from formulary_catalog.store.search.statement import CandidateQuery, CandidateReader
from quality_evidence import EVIDENCE, notifications, read_evidence
from quality_judgements import (
    BEST,
    NAMESPACE,
    RUNBOOKS,
    STARTER,
    JudgedCatalog,
    Judgement,
    read_entries,
    read_judgements,
)
from quality_variants import Variant, asks, with_owners
from support.databases import migrated_database
from support.serving import load

WEIGHTS = ("meaning", "words", "signal", "severity")
NOTHING_WEIGHT = 1.5
EXCLUDED_WEIGHT = 0.6
"""What a query counts for the confidence that nothing answers, and one whose right answers are excluded. Of 100
searches under constraints, fewer ask for what is excluded than for what is there. A remedy that does not fit does more
harm than a right one that is doubted: with 1.0 a fifth of the queries that nothing answers would get 0.5 or more. The
second belongs to how many other `Variant`s a query is asked under: each that is added takes from its share."""
EVIDENCE_WEIGHT = 0.5
"""The same for evidence: each fault of the lab is asked three times, as pasted, by its alert and by its cause; each
alert twice, in words and as a notification."""
USED = tuple(Calibration._fields)
RIDGE = 3e-4
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A judged query under some constraints, with the evidence of the workflows that these allow.

    `features`: float64 of shape (candidates, `WEIGHTS`). `further`: what the labels count that are not fitted.
    """

    judgement: Judgement
    variant: Variant
    wanted: Wanted
    nearest_known: float
    signs: QuerySigns
    features: _Floats
    further: _Floats
    grades: npt.NDArray[np.int_]


async def ask(
    catalog: JudgedCatalog, further: Sequence[Judgement], *, embedder: Embedder, postgres: EmbeddedPostgres
) -> list[Asked]:
    """Every query of a catalog to tune on, and `further` ones, under all constraints."""
    owned = with_owners(read_entries(catalog.workflows))
    entries = [catalog_entry(each, source="judged", default_namespace=NAMESPACE) for each in owned]
    labels = {entry.name: entry.labels for entry in entries}
    tuned = [each for each in read_judgements(catalog.judgements) if each.part == "tune"]
    judgements = [*further, *notifications(tuned), *tuned]
    async with migrated_database(postgres) as dsn:
        await load([catalog.workflows], dsn=dsn, embedder=embedder)
        async with Database.opened(dsn, role=Role.SERVER, deadline=30) as database:
            reader = CandidateReader(database)
            return [
                asked
                for judgement in judgements
                for asked in await _under_all_constraints(judgement, labels=labels, embedder=embedder, reader=reader)
            ]


async def _under_all_constraints(
    judgement: Judgement, *, labels: Mapping[str, WorkflowLabels], embedder: Embedder, reader: CandidateReader
) -> list[Asked]:
    """A query under each of the constraints that leave some workflow allowed.

    The evidence of a text is the same under all of them, so it is read once. Half of the `labels` declare the team
    of the incidents.
    """
    plain = plan_search(asks(judgement, Variant.PLAIN).request, context=None, strict_keys=frozenset())
    vector = embedder.embed_query(plain.parsed.text)
    question = CandidateQuery(
        constraints=Constraints(),
        words=[term.word for term in plain.terms],
        vector=ModelVector(embedder.model_id, vector),
    )
    found = await reader.read(question, namespaces=None)
    wanted = Wanted.of(plain.terms, usable=found.usable)
    nearest = nearest_known(vector, model_id=embedder.model_id)
    asked = []
    for variant in Variant:
        if variant is Variant.EXCLUDED and not judgement.has_answer:
            continue
        each = asks(judgement, variant)
        plan = plan_search(each.request, context=each.context, strict_keys=frozenset())
        evidence = [one for one in found.evidence if allowed(labels[one.name], plan.constraints)]
        if not evidence:
            continue
        declared = [labels[one.name] for one in evidence]
        asked.append(
            Asked(
                judgement=each.judgement,
                variant=variant,
                wanted=wanted,
                nearest_known=nearest or 0.0,
                signs=plain.parsed.signs,
                features=features(evidence, declared=declared, plan=plan, wanted=wanted),
                further=np.array([_not_fitted(one, plan=plan) for one in declared]),
                grades=np.array([each.judgement.grade(one.name) for one in evidence]),
            )
        )
    return asked


def _not_fitted(declared: WorkflowLabels, *, plan: SearchPlan) -> float:
    contradicts = severity_evidence(declared, mentioned=plan.parsed.severity) < 0
    return label_evidence(declared, plan.constraints) - SEVERITY_CONTRADICTED * contradicts


def features(
    evidence: Sequence[CandidateEvidence], *, declared: Sequence[WorkflowLabels], plan: SearchPlan, wanted: Wanted
) -> _Floats:
    """What the fitted weights are multiplied by."""
    signal, severity = plan.parsed.ranking_signal, plan.parsed.severity
    return np.stack(
        [
            np.array([one.cosine or 0.0 for one in evidence]),
            words_held(places_found(evidence, wanted=wanted), wanted=wanted),
            np.array([signal in each.values.get("signal_type", ()) for each in declared]),
            np.array([severity in each.values.get("severity", ()) for each in declared]),
        ],
        axis=1,
    )


def fitted_weights(asked: Sequence[Asked]) -> _Floats:
    """The weights that make the best answers most likely among the allowed; acceptable ones do not count as wrong."""
    ranked = [
        (each.features[kept := each.grades != 1], each.further[kept], each.grades[kept] == BEST)
        for each in asked
        if each.variant is Variant.FILTERED and BEST in each.grades and not each.judgement.id.startswith(EVIDENCE)
    ]

    def loss(weights: _Floats) -> float:
        return sum(map(_unlikely, ranked, [weights] * len(ranked))) / len(ranked) + RIDGE * float(weights @ weights)

    return _smallest(loss, count=len(WEIGHTS))


def _unlikely(ranked: tuple[_Floats, _Floats, npt.NDArray[np.bool_]], weights: _Floats) -> float:
    given, further, best = ranked
    scores = given @ weights + further
    odds = np.exp(scores - scores.max())
    return float(-np.log(odds[best].sum() / odds.sum()))


def fitted_calibration(asked: Sequence[Asked], *, weights: _Floats, used: Sequence[str]) -> Calibration:
    """The coefficients by which the confidence of first answers is true; 0 for what is not `used`."""
    rows = [*_first_answers(asked, weights=weights)]
    given = np.array([[getattr(values, name) for name in used] for values, _, _ in rows])
    right, counts = np.array([right for _, right, _ in rows]), np.array([count for _, _, count in rows])

    def loss(coefficients: _Floats) -> float:
        log_odds = given @ coefficients
        return float((counts * (np.logaddexp(0, log_odds) - right * log_odds)).sum() / counts.sum())

    found = dict(zip(used, (round(float(each), 3) for each in _smallest(loss, count=len(used))), strict=True))
    return Calibration(**{name: found.get(name, 0.0) for name in Calibration._fields})


def _first_answers(asked: Sequence[Asked], *, weights: _Floats) -> Iterator[tuple[Calibration, bool, float]]:
    """What the coefficients are multiplied by, whether the first answer is right, and how much it counts."""
    for each in asked:
        scores = each.features @ weights + each.further
        first = int(scores.argmax())
        values = Calibration(
            constant=1.0,
            score=float(scores[first]),
            length=float(np.log1p(each.wanted.rarity)),
            known=each.nearest_known,
            pasted=float(each.signs.printed),
            symptom=float(each.signs.symptom),
        )
        count = EXCLUDED_WEIGHT if each.variant is Variant.EXCLUDED else 1.0
        count *= EVIDENCE_WEIGHT if each.judgement.id.startswith(EVIDENCE) else 1.0
        yield values, bool(each.grades[first] > 0), count if each.judgement.has_answer else count * NOTHING_WEIGHT


def _smallest(loss: Callable[[_Floats], float], *, count: int) -> _Floats:
    found: _Floats = minimize(loss, np.zeros(count), method="L-BFGS-B").x
    return found


def write(values: Mapping[str, object], *, module: Path) -> None:
    """Replace the constants of a module."""
    source = module.read_text(encoding="utf-8")
    for name, value in values.items():
        source = re.sub(rf"^{name} = .*$", f"{name} = {value}", source, flags=re.MULTILINE)
    module.write_text(source, encoding="utf-8")


def main() -> None:
    """Ask, fit, write, print."""
    embedder = load_embedder()
    with tempfile.TemporaryDirectory(prefix="formulary-calibrate-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "data") as postgres:
            asked = [
                each
                for catalog, further in ((STARTER, read_evidence("fit")), (RUNBOOKS, []))
                for each in asyncio.run(ask(catalog, further, embedder=embedder, postgres=postgres))
            ]
    weights = np.round(fitted_weights(asked), 2)
    by_name = dict(zip(WEIGHTS, map(float, weights), strict=True))
    by_words = np.where(np.array(WEIGHTS) == "meaning", 0.0, weights)
    without_known = [name for name in USED if name != "known"]
    calibrations = {
        "BY_MEANING": fitted_calibration(asked, weights=weights, used=USED),
        "BY_MEANING_ALONE": fitted_calibration(asked, weights=weights, used=without_known),
        "BY_WORDS": fitted_calibration(asked, weights=by_words, used=without_known),
    }
    words = {"MEANING_WEIGHT": by_name["meaning"], "WORDS_WEIGHT": by_name["words"]}
    labels = {f"{name.upper()}_WEIGHT": by_name[name] for name in ("signal", "severity")}
    for module, values in ((fitting, words), (label_weights, labels), (confidence, calibrations)):
        write(values, module=Path(str(module.__file__)))
        for name, value in values.items():
            print(f"{name} = {value}")


if __name__ == "__main__":
    main()
