"""A small catalog of related workflows, and how a person asks for parts of it."""

from typing import Any

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.workflows.requests import ListingRequest, RelatedRequest
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.arguments.browsing import ListArguments, RelatedPageArguments
from formulary_catalog.services.workflows.relations import Relations
from support.manifest import workflow

CALLER = Caller(name="test", access=EVERYTHING)
NO_CONTEXT = ContextReference()
ASKED: dict[str, Any] = {"context": NO_CONTEXT, "caller": CALLER}


def related(**relations: str) -> list[dict[str, str]]:
    return [{"relation": relation, "name": name.replace("_", "-")} for name, relation in relations.items()]


def requires(name: str) -> list[dict[str, str]]:
    return [{"relation": "requires", "name": name}]


DOCUMENTS = [
    workflow(
        "oom-raise-limit",
        riskLevel="low",
        title="Raise the memory limit",
        actionType="IncreaseMemoryLimits",
        description={
            "what": "Raises it.",
            "whenToUse": "When the limit is too low.",
            "whenNotToUse": "Never where memory leaks; take oom-restart-leaking. Not for cron-jobs either.",
        },
        related=related(oom_scale_out="escalatesTo", oom_check_quota="requires"),
        steps=[{"name": "raise", "command": "kubectl set resources"}],
    ),
    workflow("oom-scale-out", related=related(node_add="escalatesTo")),
    workflow("oom-check-quota", actionType="CheckQuota"),
    workflow("oom-restart-leaking", riskLevel="medium"),
    workflow("oom-lower-limit", related=related(oom_raise_limit="rollbackOf"), actionType="IncreaseMemoryLimits"),
    workflow("node-add", actionType="AddNode", labels=workflow("x")["spec"]["labels"] | {"signalType": ["PodPending"]}),
]


def listing(**asked: Any) -> ListingRequest:
    return ListArguments.read(asked).request


def walk(**asked: Any) -> RelatedRequest:
    return RelatedPageArguments.read(asked).request


async def edges(parts: CatalogParts, entity: str, **asked: Any) -> list[tuple[str, str, str]]:
    answer = await Relations(parts).related(walk(entity=entity, **asked), **ASKED)
    assert answer.total >= len(answer.related)
    return [(each.relation, each.direction, each.name) for each in answer.related]
