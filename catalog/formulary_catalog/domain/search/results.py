"""From stored manifests to answers: summaries, details, and the reasons of each match.

The services call it last. Custom labels never pass through here (DESIGN section 6): a reason says that they matched,
without keys or values.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from formulary_catalog.domain.answers.catalog import (
    MAX_HIT_DESCRIPTION,
    WorkflowDetails,
    WorkflowHit,
    WorkflowSummary,
    WorkflowVersion,
)
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.search.label_weights import ANY, share
from formulary_catalog.domain.search.terms import Term, rarity
from formulary_catalog.domain.stored import StoredManifest, StoredVersion, WorkflowOutcome
from formulary_catalog.domain.text import PLACE_WEIGHTS, WordPlace, shortened
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.identity import workflow_uri
from formulary_catalog.domain.workflows.inputs import input_schema
from formulary_catalog.domain.workflows.labels import DIMENSIONS, WILDCARD, Constraints, fold, wire_name
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow, title_of

MADE_FOR_THESE_LABELS = "made for this incident's labels"
ANY_OF_THESE_LABELS = "any of this incident's labels"
_SHOWN_WORDS = 6
_PLACE_NAMES = {  # headings: name, title, keywords, action type
    WordPlace.NAME: "words in headings",
    WordPlace.WHEN_TO_USE: "words in when to use",
    WordPlace.WHAT: "words in description",
}
_PLACE_SECTIONS = {WordPlace.WHEN_TO_USE: "when_to_use", WordPlace.WHAT: "description"}
_SHOWN_TITLE = 250
_SHOWN_DURATION = 40
_SHOWN_VALUES = 20
_SHOWN_NAMES = 3
"""Bounds of one line of an answer, so that no single workflow can crowd out the others."""


def shown_labels(workflow: RemediationWorkflow) -> dict[str, list[str]]:
    """Declared labels under their wire names; `*` alone where it matches everything."""
    declared = {dimension: getattr(workflow.spec.labels, dimension) for dimension in DIMENSIONS}
    return {
        wire_name(dimension): [WILDCARD] if WILDCARD in values else list(values)
        for dimension, values in declared.items()
        if values and dimension != "signal_type"
    }


def match_reasons(
    workflow: RemediationWorkflow,
    *,
    constraints: Constraints,
    inferred: Mapping[str, str],
    terms: Sequence[Term],
    places: bytes,
    cosine: float | None,
) -> list[str]:
    """Why a workflow is in the answer, what tells it from others first: labels, words and where they occur, similarity.

    Of the words, the answer names those that count most; `places` says where each term was found. It says that custom
    labels match, and never which.
    """
    declared, further = _label_reasons(workflow, constraints=constraints, inferred=inferred)
    own = [*declared, *_custom_reasons(workflow, constraints=constraints)]
    reasons = [*own, *_word_reasons(terms, places=places), *further]
    return reasons if cosine is None else [*reasons, f"meaning: cosine {cosine:.2f}"]


def _label_reasons(
    workflow: RemediationWorkflow, *, constraints: Constraints, inferred: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """What it declares of the asked labels, and what else of its labels allows it."""
    exact, wildcard, generic = [], [], []
    for dimension in DIMENSIONS:
        wanted = constraints.values.get(dimension)
        if not wanted:
            continue
        declared: list[str] = getattr(workflow.spec.labels, dimension)
        if hits := [value for value in declared if fold(value) in wanted]:
            exact.append(f"{wire_name(dimension)} {'/'.join(hits)}")
        elif WILDCARD in declared:
            wildcard.append(wire_name(dimension))
        elif not declared:
            generic.append(wire_name(dimension))
    for dimension, value in inferred.items():
        declared = getattr(workflow.spec.labels, dimension)
        if dimension not in constraints.values:
            exact += [f"{wire_name(dimension)} {each}" for each in declared if fold(each) == fold(value)]
    observed = constraints.detected
    detected = [visible(f"{key} {observed[key]}") for key in workflow.spec.detected_labels if key in observed]
    further = {"any ": wildcard, "not limited by ": generic, "requires what was detected: ": detected}
    return (
        [f"declared for {', '.join(exact)}"] if exact else [],
        [prefix + ", ".join(labels) for prefix, labels in further.items() if labels],
    )


def _custom_reasons(workflow: RemediationWorkflow, *, constraints: Constraints) -> list[str]:
    """That some custom label counted, never which."""
    declared = {key: frozenset(values) for key, values in workflow.spec.custom_labels.items()}
    shares = {share(declared.get(key, frozenset()), wanted=wanted) for key, wanted in constraints.custom.items()}
    return [
        reason for counted, reason in ((1.0, MADE_FOR_THESE_LABELS), (ANY, ANY_OF_THESE_LABELS)) if counted in shares
    ]


def _word_reasons(terms: Sequence[Term], *, places: bytes) -> list[str]:
    best: dict[str, tuple[float, int, str]] = {}
    for term, place in zip(terms, places, strict=True):
        found = (rarity(term.word) * PLACE_WEIGHTS[place], place, term.word)
        if place in _PLACE_NAMES and found[0] > best.get(term.origin, (0.0,))[0]:
            best[term.origin] = found
    shown = sorted(best.values(), key=lambda each: -each[0])[:_SHOWN_WORDS]
    return [
        f"{said}: {', '.join(word for _, where, word in shown if where == place)}"
        for place, said in _PLACE_NAMES.items()
        if any(where == place for _, where, _ in shown)
    ]


def matched_section(terms: Sequence[Term], *, places: bytes) -> str:
    """The section where those words are that count most; empty where none is in a section, but in a heading."""
    counts = dict.fromkeys(_PLACE_SECTIONS, 0.0)
    for term, place in zip(terms, places, strict=True):
        if place in counts:
            counts[WordPlace(place)] += rarity(term.word)
    best = max(counts, key=lambda place: counts[place])
    return _PLACE_SECTIONS[best] if counts[best] else ""


def workflow_hit(
    workflow: RemediationWorkflow,
    *,
    stored: StoredVersion,
    cosine: float | None,
    confidence: float,
    reasons: list[str],
    caution: str,
    section: str = "",
) -> WorkflowHit:
    """One line of a search answer; its address leads to the `section`, if one is given."""
    spec, outcome = workflow.spec, stored.outcome
    return WorkflowHit(
        workflow_id=stored.workflow_id,
        version=spec.version,
        version_id=stored.version_id,
        namespace=stored.namespace,
        title=shortened(title_of(workflow), limit=_SHOWN_TITLE),
        description=shortened(spec.description.what, limit=MAX_HIT_DESCRIPTION),
        action_type=spec.action_type,
        signal_types=spec.labels.signal_type[:_SHOWN_VALUES],
        labels=shown_labels(workflow),
        similarity_score=None if cosine is None else round(min(max(cosine, 0.0), 1.0), 4),
        confidence=confidence,
        match_reasons=reasons,
        estimated_duration=shortened(spec.estimated_duration, limit=_SHOWN_DURATION),
        success_rate=outcome.success_rate,
        **_counted(outcome),
        median_duration_seconds=outcome.median_duration_seconds,
        risk_level=spec.risk_level or "unknown",
        caution=caution,
        uri=workflow_uri(namespace=stored.namespace, name=stored.name) + (f"#{section}" if section else ""),
    )


def workflow_details(
    workflow: RemediationWorkflow,
    *,
    stored: StoredVersion,
    not_invocable_because: str,
    history: Sequence[StoredVersion],
) -> WorkflowDetails:
    """The full answer about one version; `history` are all versions that the caller may read."""
    spec, outcome = workflow.spec, stored.outcome
    notes = [f"can be read and followed, but not invoked: {not_invocable_because}"] if not_invocable_because else []
    if stored.status != "Active":
        notes.append(f"this version is {stored.status.lower()}; searches do not return it")
    return WorkflowDetails(
        workflow_id=stored.workflow_id,
        version=spec.version,
        version_id=stored.version_id,
        namespace=stored.namespace,
        title=title_of(workflow),
        status=stored.status,
        description=spec.description.what,
        when_to_use=spec.description.when_to_use,
        when_not_to_use=spec.description.when_not_to_use,
        preconditions=spec.description.preconditions,
        action_type=spec.action_type,
        signal_types=list(spec.labels.signal_type),
        labels=shown_labels(workflow),
        risk_level=spec.risk_level or "unknown",
        estimated_duration=spec.estimated_duration,
        success_rate=outcome.success_rate,
        success_interval=outcome.success_interval,
        runs_counted=outcome.verified,
        median_duration_seconds=outcome.median_duration_seconds,
        invocable=not not_invocable_because,
        not_invocable_because=not_invocable_because,
        prerequisites=list(spec.prerequisites),
        steps=[_filled(step.model_dump(include={"name", "description", "command"})) for step in spec.steps],
        rollback_steps=[
            _filled(step.model_dump(include={"name", "description", "command"})) for step in spec.rollback_steps
        ],
        parameters=[
            parameter.model_dump(include={"name", "type", "required", "description"}) for parameter in spec.parameters
        ],
        input_schema=input_schema(spec.parameters),
        execution=_filled(spec.execution.model_dump(by_alias=True, mode="json")),
        related=[link.model_dump(include={"name", "relation"}) for link in spec.related],
        versions=[
            WorkflowVersion(version=each.version, version_id=each.version_id, status=each.status) for each in history
        ],
        notes=notes,
        uri=workflow_uri(namespace=stored.namespace, name=stored.name, version=spec.version),
    )


def workflow_summary(workflow: RemediationWorkflow, *, stored: StoredManifest, invocable: bool) -> WorkflowSummary:
    """One line of a listing."""
    served = stored.status == "Active"
    return WorkflowSummary(
        workflow_id=stored.workflow_id,
        namespace=stored.namespace,
        version=workflow.spec.version,
        version_id=stored.version_id,
        title=title_of(workflow),
        action_type=workflow.spec.action_type,
        signal_types=list(workflow.spec.labels.signal_type),
        risk_level=workflow.spec.risk_level or "unknown",
        status=stored.status,
        invocable=invocable and served,
        indexed_at=moment(stored.changed_at),
        uri=workflow_uri(namespace=stored.namespace, name=stored.name, version="" if served else stored.version),
    )


def not_invocable_notes(workflow_ids: Sequence[str]) -> list[str]:
    """A warning that these can be read and not run; nothing without any."""
    if not workflow_ids:
        return []
    more = f" and {len(workflow_ids) - _SHOWN_NAMES} more" if len(workflow_ids) > _SHOWN_NAMES else ""
    return [f"not invocable: {', '.join(workflow_ids[:_SHOWN_NAMES])}{more}; the details of a workflow say why"]


def _counted(outcome: WorkflowOutcome) -> dict[str, Any]:
    """How much is behind the success rate; a hit without any run is not made longer by saying so."""
    interval, runs = outcome.success_interval, outcome.verified
    return {"success_interval": interval, "runs_counted": runs} if runs else {}


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in ("", None)}
