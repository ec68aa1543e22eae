"""Which kinds of a cluster may be targets, and whose labels count for the ones that are not read."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from formulary_catalog.domain.targets.context import target_context
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.domain.targets.reference import parse_target
from formulary_catalog.errors import ContextError
from formulary_operator.access.targets import KubernetesTargets
from support.kube_clients import answered_by

ANSWERS = {
    "/apis": {"groups": [{"preferredVersion": {"groupVersion": "cert-manager.io/v1"}}]},
    "/apis/cert-manager.io/v1": {"resources": [{"name": "clusterissuers", "kind": "ClusterIssuer"}]},
    "/api/v1": {
        "resources": [
            {"name": "limitranges", "kind": "LimitRange", "namespaced": True},
            {"name": "persistentvolumes", "kind": "PersistentVolume", "namespaced": False},
        ]
    },
    "/api/v1/namespaces/play": {"metadata": {"name": "play", "labels": {"environment": "development"}}},
}


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    found = ANSWERS.get(request.path)
    return web.json_response(found) if found is not None else web.json_response({"reason": "NotFound"}, status=404)


@pytest.fixture
async def reader() -> AsyncIterator[KubernetesTargets]:
    async with answered_by(_answer) as client:
        yield KubernetesTargets(client)


@pytest.mark.parametrize("spelling", ["LimitRange", "limitrange", "limitranges"])
async def test_a_kind_of_the_core_api_is_a_target_under_the_word_of_its_namespace(
    reader: KubernetesTargets, spelling: str
) -> None:
    reference = parse_target(f"play/{spelling}/defaults")

    around = await reader.read(reference, kind=await reader.kind_of(reference))
    context = target_context(around, mapping=DEFAULT_MAPPING)

    assert (context.environment, context.target) == ("development", "play/LimitRange/defaults")


@pytest.mark.parametrize("kind", ["PersistentVolume", "ClusterIssuer"])
async def test_what_is_in_no_namespace_borrows_the_word_of_none(reader: KubernetesTargets, kind: str) -> None:
    reference = parse_target(f"play/{kind}/data-1")

    with pytest.raises(ContextError, match="in no namespace whose labels could count"):
        await reader.read(reference, kind=await reader.kind_of(reference))
