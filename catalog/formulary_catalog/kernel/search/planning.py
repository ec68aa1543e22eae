"""What one search asks for, by the labels of the request and the incident, and what of them the answer shows.

`kernel.search.pipeline` calls it once the incident is known, so do explanations and coverage. Here the context wins
over the call, for all of them alike: what comes later reads the plan alone, and cannot widen it. No I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from formulary_catalog.domain.audit.sealing import KeyedDigest
from formulary_catalog.domain.incidents import CONTEXT_DIMENSIONS, RequestContext, constraints_of
from formulary_catalog.domain.search.query import ParsedQuery, parse_problems
from formulary_catalog.domain.search.request import SearchRequest
from formulary_catalog.domain.search.terms import Term, query_terms
from formulary_catalog.domain.text import exclusion_phrase
from formulary_catalog.domain.workflows.labels import (
    NOT_NARROWED,
    STANDARD_KEYS,
    WILDCARD,
    Constraints,
    Narrowing,
    demanded,
    fold_all,
    wire_name,
)
from formulary_catalog.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """A request with its context.

    `constraints` are all that restricts the search, `imposed` those among them that are not labels or words of the
    call; `narrowing` has its keywords as phrases. `asked` are the folded label values of the caller; `notes` are for
    the answer. `further` are other problems that a pasted query reports.
    """

    parsed: ParsedQuery
    terms: tuple[Term, ...]
    constraints: Constraints
    imposed: Constraints = field(default_factory=Constraints)
    narrowing: Narrowing = NOT_NARROWED
    asked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    further: tuple[ParsedQuery, ...] = ()

    def by_problem(self) -> list["SearchPlan"]:
        """A plan for each problem of the query, under the same constraints; nearly always this one alone."""
        others = [replace(self, parsed=each, terms=query_terms(each.text), further=()) for each in self.further]
        return [self, *others]


def plan_search(request: SearchRequest, *, context: RequestContext | None, strict_keys: frozenset[str]) -> SearchPlan:
    """Combine a request with its context: the labels of the context win, custom labels only narrow.

    What the query mentions constrains nothing (DESIGN section 4).

    Raises:
        InvalidInput: the caller set a custom label that the context sets too.
    """
    asked = {dimension: folded for dimension, values in request.labels.items() if (folded := fold_all(values))}
    appended = (
        constraints_of(context, strict_keys=strict_keys)
        if context
        else Constraints(strict_keys=strict_keys | STANDARD_KEYS)
    )
    overridden = sorted(
        dimension for dimension, values in appended.values.items() if dimension in asked and asked[dimension] != values
    )
    given_custom = demanded(request.custom_labels)
    clash = [key for key, values in given_custom.items() if appended.custom.get(key, values) != values]
    if clash:
        raise InvalidInput(
            f"filters.custom_labels: {len(clash)} keys are set otherwise by the incident's context; leave them out",
            field="filters.custom_labels",
        )
    phrases = {keyword: exclusion_phrase(keyword) for keyword in request.exclude_keywords}
    notes = [f"{wire_name(dimension)} was set by the incident's context, not by the call" for dimension in overridden]
    notes += [context.note] if context is not None and context.note else []
    notes += [
        f"exclude_keywords entry {keyword!r} holds no word and excludes nothing"
        for keyword, phrase in phrases.items()
        if not phrase
    ]
    wanted = {keyword: exclusion_phrase(keyword) for keyword in request.narrowing.keywords}
    notes += [f"keywords entry {keyword!r} holds no word" for keyword, phrase in wanted.items() if not phrase]
    parsed, *further = parse_problems(request.query)
    imposed = replace(appended, custom={**given_custom, **appended.custom})
    return SearchPlan(
        parsed=parsed,
        terms=query_terms(parsed.text),
        constraints=replace(
            imposed,
            values={**asked, **appended.values},
            detected={**request.detected_labels, **appended.detected},
            excluded_phrases=tuple(dict.fromkeys(phrase for phrase in phrases.values() if phrase)),
        ),
        imposed=imposed,
        narrowing=replace(request.narrowing, keywords=tuple(filter(None, wanted.values()))),
        asked={
            dimension: values
            for dimension, values in asked.items()
            if dimension not in appended.values and values != {WILDCARD}
        },
        notes=tuple(notes),
        further=tuple(further),
    )


def applied_constraints(
    request: SearchRequest,
    *,
    context: RequestContext | None,
    constraints: Constraints,
    inferred: Mapping[str, str],
    notes: Sequence[str],
    digest: KeyedDigest,
) -> dict[str, Any]:
    """What narrowed a search, by where it came from, without what is empty. Of custom labels only digests.

    `inferred` is what was read from the query, as the answer has it; `notes` are those of the answer. Labels that the
    incident overrode are not among `given`: they were not applied.
    """
    incident = {} if context is None else {name: getattr(context, name) for name in CONTEXT_DIMENSIONS}
    custom = constraints.custom
    strict = custom.keys() & constraints.strict_keys
    said = {
        "given": {wire_name(name): list(values) for name, values in request.labels.items() if not incident.get(name)},
        "incident": {name: value for name, value in incident.items() if value},
        "detected": dict(constraints.detected),
        "excluded": list(constraints.excluded_phrases),
        "narrowed": {name: value for name, value in asdict(request.narrowing).items() if value},
        "custom_labels": digest.of_labels(custom) if custom else "",
        "strict_keys": digest.of_labels({key: frozenset() for key in strict}) if strict else "",
        "inferred": {name: value for name, value in inferred.items() if value},
        "notes": list(notes),
    }
    return {name: value for name, value in said.items() if value}
