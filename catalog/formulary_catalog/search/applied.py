"""The constraints of a search as they were applied, in the form in which its row of the trail holds them."""

from collections.abc import Mapping, Sequence
from typing import Any

from formulary_catalog.domain.analysis import RequestContext
from formulary_catalog.domain.labels import Constraints
from formulary_catalog.domain.request import SearchRequest, wire_name
from formulary_catalog.domain.sealing import KeyedDigest

_OF_THE_INCIDENT = ("environment", "priority", "cluster")


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
    incident = {} if context is None else {name: getattr(context, name) for name in _OF_THE_INCIDENT}
    custom = constraints.custom
    strict = custom.keys() & constraints.strict_keys
    said = {
        "given": {wire_name(name): list(values) for name, values in request.labels.items() if not incident.get(name)},
        "incident": {name: value for name, value in incident.items() if value},
        "detected": dict(constraints.detected),
        "excluded": list(constraints.excluded_phrases),
        "custom_labels": digest.of_labels(custom) if custom else "",
        "strict_keys": digest.of_labels({key: frozenset() for key in strict}) if strict else "",
        "inferred": {name: value for name, value in inferred.items() if value},
        "notes": list(notes),
    }
    return {name: value for name, value in said.items() if value}
