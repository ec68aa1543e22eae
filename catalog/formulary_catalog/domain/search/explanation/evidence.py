"""What speaks for an allowed workflow, part by part, and what would have had to differ for it to be first.

`services/search/explanation/service` asks for it. The parts that count in the score add up to the score of
`domain/search/scoring`: a property test says so. Custom labels are named only for who may read constraints.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from formulary_catalog.domain.search.candidates import CandidateEvidence
from formulary_catalog.domain.search.caution import CAUTION_WEIGHT
from formulary_catalog.domain.search.fit import MEANING_WEIGHT, WORDS_WEIGHT, Part, Wanted
from formulary_catalog.domain.search.label_weights import (
    CUSTOM_WEIGHT,
    DETECTED_WEIGHT,
    LABEL_WEIGHTS,
    SEVERITY_WEIGHT,
    SIGNAL_WEIGHT,
    halving,
    severity_evidence,
    share,
)
from formulary_catalog.domain.search.terms import USUAL_RARITY, Term
from formulary_catalog.domain.text import PLACE_WEIGHTS, WordPlace, one_line
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.labels import Constraints, WorkflowLabels, wire_name

PLACES = {
    WordPlace.NAME: "words in headings",
    WordPlace.WHEN_TO_USE: "words in when to use",
    WordPlace.WHAT: "words in description",
    WordPlace.SIGNAL: "words in signal types",
    WordPlace.NONE: "words found nowhere",
}
"""What a part is called whose words are found there best."""
_SHOWN_WORDS = 8
_SHOWN_CHANGES = 6
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A part of what speaks for a workflow, or against it.

    `log_odds` is what it counts, `at_most` what a workflow could get for it. A caution counts in the confidence alone.
    """

    part: str
    detail: str
    log_odds: float
    at_most: float
    in_score: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What would have had to differ; `gain` is what it adds to the score, `enough` whether that makes it the first."""

    change: str
    gain: float
    enough: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingBasis:
    """What a search ranked by: as `domain/search/fit` and `label_weights` take it.

    `signal` and `severity` are those that the query mentions, folded; empty where none is, or where it counts nothing.
    `by_meaning`: whether cosines counted. `reveal_custom`: whether keys of custom labels may be said.
    """

    constraints: Constraints
    terms: Sequence[Term]
    wanted: Wanted
    signal: str
    severity: str
    by_meaning: bool
    reveal_custom: bool


def evidence_of(
    workflow: WorkflowLabels, found: CandidateEvidence, *, basis: RankingBasis, caution: str = ""
) -> list[Evidence]:
    """The parts of the score of an allowed workflow, and its caution; those of labels that were not asked for are left
    out."""
    parts = [_meaning(found)] if basis.by_meaning else []
    parts += [*_words(found, basis=basis), *_labels(workflow, basis=basis)]
    if caution:
        parts.append(Evidence(part="caution", detail=caution, log_odds=-CAUTION_WEIGHT, at_most=0.0, in_score=False))
    return parts


def changes_to_be_first(
    evidence: Sequence[Evidence], found: CandidateEvidence, *, basis: RankingBasis, behind: float
) -> list[Change]:
    """What would have had to differ, by how much it helps; `behind` is how much the score is below that of the first.

    Everything else stays as it is. None for the first one.
    """
    if behind <= 0 and not any(part.part == "caution" for part in evidence):
        return []
    found_changes = _changes(evidence, found, basis=basis, behind=behind)
    changes = sorted(found_changes, key=lambda change: (not change.enough, -change.gain, change.change))
    total = sum(change.gain for change in changes)
    shown = changes[:_SHOWN_CHANGES]
    if total > behind and not any(change.enough for change in changes):
        return [*shown, Change(change="all of it together", gain=total, enough=True)]
    return shown


def _meaning(found: CandidateEvidence) -> Evidence:
    cosine = found.cosine or 0.0
    detail = "no vector of the serving model is stored" if found.cosine is None else f"cosine {cosine:.4f}"
    return Evidence(part="meaning", detail=detail, log_odds=MEANING_WEIGHT * cosine, at_most=MEANING_WEIGHT)


def _words(found: CandidateEvidence, *, basis: RankingBasis) -> Iterator[Evidence]:
    by_place: defaultdict[int, list[Part]] = defaultdict(list)
    for part in basis.wanted.parts:
        by_place[_best_place(part, found)].append(part)
    for place, name in PLACES.items():
        if not (parts := sorted(by_place[place], key=lambda part: -part.rarity)):
            continue
        yield Evidence(
            part=name,
            detail=_named(parts, basis=basis),
            log_odds=sum(_word_value(part, place, basis=basis) for part in parts),
            at_most=sum(_word_value(part, WordPlace.NAME, basis=basis) for part in parts),
        )


def _labels(workflow: WorkflowLabels, *, basis: RankingBasis) -> Iterator[Evidence]:
    constraints = basis.constraints
    for dimension, weight in LABEL_WEIGHTS.items():
        if wanted := constraints.values.get(dimension):
            declared = workflow.values.get(dimension, _NONE)
            part, detail = f"label {wire_name(dimension)}", _declares(declared, wanted)
            yield Evidence(part=part, detail=detail, log_odds=weight * share(declared, wanted=wanted), at_most=weight)
    if basis.signal:
        declares = basis.signal in workflow.values.get("signal_type", _NONE)
        detail = f"{'declares' if declares else 'does not declare'} {_shown(basis.signal)}"
        count = SIGNAL_WEIGHT * declares
        yield Evidence(part="signal in the query", detail=detail, log_odds=count, at_most=SIGNAL_WEIGHT)
    if basis.severity:
        count = severity_evidence(workflow, mentioned=basis.severity)
        says = "declares" if count > 0 else "declares others than" if count < 0 else "does not declare"
        detail = f"{says} {_shown(basis.severity)}"
        yield Evidence(part="severity in the query", detail=detail, log_odds=count, at_most=SEVERITY_WEIGHT)
    if constraints.custom:
        shares = {
            key: share(workflow.custom.get(key, _NONE), wanted=wanted) for key, wanted in constraints.custom.items()
        }
        keys = sorted(_shown(key) for key, declared in shares.items() if declared)
        detail = f"declares {', '.join(keys)}" if keys else "declares none of them"
        yield Evidence(
            part="custom labels",
            detail=detail if basis.reveal_custom else "labels of the incident",
            log_odds=CUSTOM_WEIGHT * halving(shares.values()),
            at_most=CUSTOM_WEIGHT * halving([1.0] * len(shares)),
        )
    if constraints.detected:
        required = [key for key in constraints.detected if key in workflow.detected]
        yield Evidence(
            part="detected labels",
            detail=f"requires {', '.join(map(_shown, required))}" if required else "requires none of them",
            log_odds=DETECTED_WEIGHT * halving([1.0] * len(required)),
            at_most=DETECTED_WEIGHT * halving([1.0] * len(constraints.detected)),
        )


def _changes(
    evidence: Sequence[Evidence], found: CandidateEvidence, *, basis: RankingBasis, behind: float
) -> Iterator[Change]:
    for part in evidence:
        gain = part.at_most - part.log_odds
        if part.part == "caution":
            yield Change(change="without its caution it would be surer", gain=0.0, enough=behind <= 0)
        elif part.part == "meaning":
            cosine = (found.cosine or 0.0) + behind / MEANING_WEIGHT
            if 0 < behind and cosine < 1:
                yield Change(
                    change=f"a cosine above {cosine:.4f} instead of {found.cosine or 0.0:.4f}", gain=behind, enough=True
                )
        elif part.part in PLACES.values():
            if gain > 0:
                words = f"in its name, title or keywords: {part.detail}"
                yield Change(change=words, gain=gain, enough=gain > behind)
        elif gain > 0:
            yield Change(
                change=f"{part.part}: it would have to match exactly ({part.detail})", gain=gain, enough=gain > behind
            )


def _best_place(part: Part, found: CandidateEvidence) -> int:
    return max(found.places[term] for term in part.terms)


def _word_value(part: Part, place: int, *, basis: RankingBasis) -> float:
    return WORDS_WEIGHT * part.rarity * PLACE_WEIGHTS[place] / (basis.wanted.rarity + USUAL_RARITY)


def _named(parts: Sequence[Part], *, basis: RankingBasis) -> str:
    words = [_shown(basis.terms[part.terms[0]].word) for part in parts]
    more = len(words) - _SHOWN_WORDS
    return ", ".join(words[:_SHOWN_WORDS]) + (f" and {more} more" if more > 0 else "")


def _declares(declared: frozenset[str], wanted: frozenset[str]) -> str:
    if hits := declared & wanted:
        return f"declares {', '.join(map(_shown, sorted(hits)))}"
    return "declares *" if declared else "is not limited by it"


def _shown(text: str) -> str:
    """What somebody wrote, as a part of one line."""
    return one_line(visible(text))
