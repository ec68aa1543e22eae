"""What the admission webhook answers to whatever the API server, or anybody else, may send."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.errors import Unavailable, VersionImmutable
from formulary_operator.webhook import MAX_BODY_BYTES, PATH, application
from support.manifest import workflow

KIND = {"group": "kubernaut.ai", "version": "v1alpha1", "kind": "RemediationWorkflow"}


class Catalog:
    """Stands for the catalog: says what it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.asked: list[str] = []

    async def check(self, entry: CatalogEntry) -> None:
        self.asked.append(f"{entry.namespace}/{entry.name} {entry.version}")
        if self.problem is not None:
            raise self.problem


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


@pytest.fixture
async def http(catalog: Catalog) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=application(catalog.check))
    async with httpx2.AsyncClient(transport=transport, base_url="https://webhook") as client:
        yield client


def _object(name: str = "restart", **spec: Any) -> dict[str, Any]:
    document = workflow(name, **spec)
    document["metadata"] |= {"namespace": "shop", "uid": "u-1", "generation": 1}
    return document


def _review(operation: str, **request: Any) -> dict[str, Any]:
    asked = {"uid": "r-1", "kind": KIND, "operation": operation, "namespace": "shop", **request}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


async def _answer(http: httpx2.AsyncClient, review: dict[str, Any]) -> dict[str, Any]:
    reply = await http.post(PATH, json=review)
    assert reply.status_code == 200, reply.text
    body = reply.json()
    assert (body["apiVersion"], body["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert body["response"]["uid"] == "r-1"
    answer: dict[str, Any] = body["response"]
    return answer


async def test_a_valid_new_workflow_passes(http: httpx2.AsyncClient) -> None:
    assert await _answer(http, _review("CREATE", object=_object())) == {"uid": "r-1", "allowed": True}


async def test_an_invalid_one_is_denied_with_the_field_the_value_and_the_rule(http: httpx2.AsyncClient) -> None:
    answer = await _answer(http, _review("CREATE", object=_object(version="latest")))
    assert not answer["allowed"]
    assert (answer["status"]["code"], answer["status"]["reason"]) == (422, "Invalid")
    assert answer["status"]["message"].startswith("spec.version: must be a semantic version")
    assert "latest" in answer["status"]["message"]


async def test_a_workflow_without_a_namespace_of_its_own_is_in_that_of_the_request(
    http: httpx2.AsyncClient, catalog: Catalog
) -> None:
    document = _object()
    del document["metadata"]["namespace"]
    await _answer(http, _review("UPDATE", object=document, oldObject=_object(version="0.9.0")))
    assert catalog.asked == ["shop/restart 1.0.0"]


async def test_a_version_with_other_content_is_denied_in_the_words_of_its_condition(
    http: httpx2.AsyncClient, catalog: Catalog
) -> None:
    catalog.problem = VersionImmutable(
        "cluster: spec.version: raise spec.version", source="cluster", field="spec.version"
    )
    answer = await _answer(http, _review("UPDATE", object=_object(what="Other."), oldObject=_object()))
    wanted = {"code": 422, "reason": "VersionImmutable", "message": "spec.version: raise spec.version"}
    assert answer == {"uid": "r-1", "allowed": False, "status": wanted}


async def test_a_new_object_is_not_measured_by_a_deleted_one_of_its_name(
    http: httpx2.AsyncClient, catalog: Catalog
) -> None:
    catalog.problem = VersionImmutable("cluster: taken", source="cluster", field="spec.version")
    assert (await _answer(http, _review("CREATE", object=_object())))["allowed"]
    assert catalog.asked == []


async def test_while_the_catalog_is_away_a_workflow_passes_with_a_warning(
    http: httpx2.AsyncClient, catalog: Catalog
) -> None:
    catalog.problem = Unavailable("the database does not answer")
    answer = await _answer(http, _review("UPDATE", object=_object(what="Other."), oldObject=_object()))
    assert answer["allowed"]
    assert answer["warnings"] == ["the catalog does not answer, so spec.version was not checked; the status will tell"]


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"operation": "DELETE", "oldObject": _object(version="latest"), "object": None}, id="deletion"),
        pytest.param({"operation": "CONNECT", "object": {}}, id="connecting"),
        pytest.param({"operation": "UPDATE", "subResource": "status", "object": _object(version="x")}, id="status"),
        pytest.param(
            {"operation": "UPDATE", "object": _object(version="x"), "oldObject": _object(version="x")},
            id="spec unchanged",
        ),
        pytest.param({"operation": "CREATE", "kind": KIND | {"kind": "AIAnalysis"}, "object": {}}, id="other kind"),
        pytest.param({"operation": "CREATE", "kind": KIND | {"group": "a.b"}, "object": {}}, id="other group"),
    ],
)
async def test_what_is_not_ours_to_judge_passes(
    http: httpx2.AsyncClient, catalog: Catalog, request_: dict[str, Any]
) -> None:
    assert await _answer(http, _review(**request_)) == {"uid": "r-1", "allowed": True}
    assert catalog.asked == []


async def test_an_object_on_its_way_out_passes(http: httpx2.AsyncClient) -> None:
    leaving = _object(version="x")
    leaving["metadata"]["deletionTimestamp"] = "2031-01-01T00:00:00Z"
    assert (await _answer(http, _review("UPDATE", object=leaving, oldObject=_object())))["allowed"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {}}',
        json.dumps(_review("CREATE", object=None)).encode(),
        json.dumps(_review("CREATE", object={"metadata": []})).encode(),
        json.dumps(_review("CREATE", object={"metadata": {"name": 5}})).encode(),
        json.dumps(_review("CREATE", uid=5, object=_object())).encode(),
        json.dumps(_review("CREATE", kind="RemediationWorkflow", object=_object())).encode(),
    ],
)
async def test_a_body_that_is_no_review_is_refused_in_one_line(http: httpx2.AsyncClient, body: bytes) -> None:
    reply = await http.post(PATH, content=body)
    assert reply.status_code == 400
    assert reply.text
    assert "\n" not in reply.text


@pytest.mark.parametrize("spec", [None, [], "text", {}, {"labels": 5}])
async def test_whatever_stands_for_a_spec_is_denied_and_never_a_crash(http: httpx2.AsyncClient, spec: Any) -> None:
    document = _object()
    document["spec"] = spec
    answer = await _answer(http, _review("CREATE", object=document))
    assert answer["status"]["message"].startswith("spec")


async def test_a_body_beyond_the_limit_is_not_read(http: httpx2.AsyncClient) -> None:
    reply = await http.post(PATH, content=b" " * (MAX_BODY_BYTES + 1))
    assert (reply.status_code, reply.text) == (413, "the body is larger than 3 MiB")


async def test_what_goes_wrong_inside_is_no_verdict(http: httpx2.AsyncClient, catalog: Catalog) -> None:
    catalog.problem = RuntimeError("secret detail")
    reply = await http.post(PATH, json=_review("UPDATE", object=_object(what="Other."), oldObject=_object()))
    assert reply.status_code == 500
    assert "secret detail" not in reply.text
