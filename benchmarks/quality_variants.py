"""The constraints under which a judged query is asked: none, its labels, an incident, one without an answer."""

import copy
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, SearchRequest, search_request
from formulary_catalog.domain.workflows.labels import normalize_detected
from quality_judgements import DIMENSION_OF, NAMESPACE, Judgement

TEAM = "squad"
"""A key that no judged workflow declares, so that it excludes none of them."""
_TEAM = ("payments",)
_OF_THE_INCIDENT = ("environment", "priority", "cluster")


class Variant(StrEnum):
    """What surrounds a query.

    `PLAIN`: nothing. `FILTERED`: the judged labels as parameters, and what was detected. `INCIDENT`: the same, with its
    environment and priority from an incident, whose team owns half of the workflows. `EXCLUDED`: as `FILTERED`, and
    every right answer is excluded.
    """

    PLAIN = "plain"
    FILTERED = "filtered"
    INCIDENT = "under an incident"
    EXCLUDED = "right answers excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A judged query as it is asked. `judgement` says what is right under these constraints."""

    judgement: Judgement
    variant: Variant
    request: SearchRequest
    context: RequestContext | None


def asks(judgement: Judgement, variant: Variant, *, custom: Mapping[str, tuple[str, ...]] | None = None) -> Ask:
    """The query under the constraints; `custom` are the custom labels of an incident, a team without any."""
    labels = {DIMENSION_OF.get(name, name): values for name, values in judgement.labels.items()}
    context = None
    if variant is Variant.PLAIN:
        labels = {}
    elif variant is Variant.INCIDENT:
        given = {name: labels.pop(name)[0] for name in _OF_THE_INCIDENT if len(labels.get(name, ())) == 1}
        context = replace(
            _incident(judgement, suffix="-incident"),
            custom_labels=custom or {TEAM: _TEAM},
            environment=given.get("environment", ""),
            priority=given.get("priority", ""),
            cluster=given.get("cluster", ""),
        )
    elif judgement.detected:
        context = _incident(judgement)
    excluded = (*judgement.best, *judgement.acceptable) if variant is Variant.EXCLUDED else ()
    return Ask(
        judgement=judgement.model_copy(update={"best": (), "acceptable": ()}) if excluded else judgement,
        variant=variant,
        request=search_request(
            query=judgement.query,
            labels=labels,
            exclude_keywords=[name.replace("-", " ") for name in excluded],
            top_k=10,
            context=ContextReference(remediation_id=context.remediation_id) if context is not None else None,
        ),
        context=context,
    )


def with_owners(entries: Iterable[CatalogEntry]) -> Iterator[dict[str, Any]]:
    """The manifests, of which about half declare the team of the incidents: right answers and rivals alike."""
    for entry in entries:
        document = copy.deepcopy(dict(entry.document))
        if hashlib.sha256(entry.name.encode()).digest()[0] % 2:
            document["spec"]["customLabels"] = {**document["spec"].get("customLabels", {}), TEAM: list(_TEAM)}
        yield document


def _incident(judgement: Judgement, *, suffix: str = "") -> RequestContext:
    name = f"{judgement.id}{suffix}"
    detected = {name: normalize_detected(value) for name, value in judgement.detected.items()}
    return RequestContext(namespace=NAMESPACE, name=name, remediation_id=name, detected_labels=detected)
