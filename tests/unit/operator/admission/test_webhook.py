"""What the admission webhook answers to whatever the API server, or anybody else, may send."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.errors import Unavailable, VersionImmutable
from formulary_operator.admission.review import path_of
from formulary_operator.admission.validator import Validator
from formulary_operator.admission.webhook import MAX_BODY_BYTES, application
from formulary_operator.governance.status import author_key
from formulary_operator.metrics import OperatorMetrics
from support.manifest import workflow

TOKEN = "5a" * 32
WORKFLOWS, GOVERNANCE = (path_of(f"{name}.formulary.dev", token=TOKEN) for name in ("workflows", "governance"))
OPERATOR = "system:serviceaccount:formulary:operator"
JANE = "jane@example.org"
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

    async def record(
        self, *, resource: str, namespace: str, name: str, uid: str, username: str, identity: Mapping[str, Any]
    ) -> None:
        if self.problem is not None:
            raise self.problem
        self.asked.append(f"{username} created {resource} {namespace}/{name} {uid}")

    async def record_author(self, *, namespace: str, version_id: str, identity: Mapping[str, Any]) -> None:
        """Asked for versions alone, it has nothing to say."""


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


@pytest.fixture
def metrics() -> OperatorMetrics:
    return OperatorMetrics()


@pytest.fixture
async def http(catalog: Catalog, metrics: OperatorMetrics) -> AsyncIterator[httpx2.AsyncClient]:
    judge = Validator(check=catalog.check, records=catalog, operator_user=OPERATOR, metrics=metrics)
    transport = httpx2.ASGITransport(app=application(judge, token=TOKEN))
    async with httpx2.AsyncClient(transport=transport, base_url="https://webhook") as client:
        yield client


def _object(name: str = "restart", **spec: Any) -> dict[str, Any]:
    document = workflow(name, **spec)
    document["metadata"] |= {"namespace": "shop", "uid": "u-1", "generation": 1}
    return document


def _ours(kind: str, **spec: Any) -> dict[str, Any]:
    """An object of another kind of ours."""
    return {
        "apiVersion": "formulary.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "one", "namespace": "shop", "uid": "u-1", "generation": 1},
        "spec": spec,
    }


def _run(**spec: Any) -> dict[str, Any]:
    return _ours("WorkflowInvocation", workflowRef={"workflowId": "restart"}, **spec)


def _approval(**spec: Any) -> dict[str, Any]:
    return _ours("InvocationApproval", invocationId="inv-00000000000000000000", decision="Approve", **spec)


def _contract(**match: Any) -> dict[str, Any]:
    return _ours("GovernanceContract", rules=[{"id": "freeze", "effect": "DENY", "match": match}])


def _asked(operation: str, document: dict[str, Any], *, user: str = JANE, **request: Any) -> dict[str, Any]:
    """The review of an object of another kind of ours."""
    kind = {"group": "formulary.dev", "version": "v1alpha1", "kind": document["kind"]}
    return _review(operation, kind=kind, object=document, userInfo={"username": user}, **request)


def _review(operation: str, **request: Any) -> dict[str, Any]:
    asked = {
        "uid": "r-1",
        "kind": KIND,
        "operation": operation,
        "namespace": "shop",
        "userInfo": {"username": JANE},
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


async def _post(http: httpx2.AsyncClient, review: dict[str, Any]) -> httpx2.Response:
    """As the API server asks about this kind."""
    return await http.post(WORKFLOWS if review["request"]["kind"] == KIND else GOVERNANCE, json=review)


async def _answer(http: httpx2.AsyncClient, review: dict[str, Any]) -> dict[str, Any]:
    reply = await _post(http, review)
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
    assert answer["warnings"] == [
        "the catalog does not answer: spec.version was not checked, which the status will show; "
        "the author was not recorded, so runs of the workflow need an approval"
    ]


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
        pytest.param(
            _asked("UPDATE", _run(dryRun=True), oldObject=_run(), subResource="status")["request"], id="status of a run"
        ),
        pytest.param(_asked("UPDATE", _run(), oldObject=_run())["request"], id="spec of a run unchanged"),
        pytest.param(_asked("DELETE", _run(), oldObject=_run())["request"], id="deletion of a run"),
    ],
)
async def test_what_is_not_ours_to_judge_passes(
    http: httpx2.AsyncClient, catalog: Catalog, request_: dict[str, Any]
) -> None:
    assert await _answer(http, _review(**request_)) == {"uid": "r-1", "allowed": True}
    assert catalog.asked == []


@pytest.mark.parametrize(
    ("document", "resource"),
    [(_run(), "workflowinvocations"), (_approval(), "invocationapprovals")],
    ids=["run", "yes"],
)
async def test_who_creates_a_run_or_an_approval_is_recorded_with_the_uid(
    http: httpx2.AsyncClient, catalog: Catalog, document: dict[str, Any], resource: str
) -> None:
    assert (await _answer(http, _asked("CREATE", document)))["allowed"]
    assert catalog.asked == [f"{JANE} created {resource} shop/one u-1"]


async def test_a_rehearsal_is_not_recorded(http: httpx2.AsyncClient, catalog: Catalog) -> None:
    assert (await _answer(http, _asked("CREATE", _approval(), dryRun=True)))["allowed"]
    assert catalog.asked == []


@pytest.mark.parametrize("document", [_run(), _approval()], ids=["run", "yes"])
async def test_what_cannot_be_recorded_is_kept_out(
    http: httpx2.AsyncClient, catalog: Catalog, document: dict[str, Any]
) -> None:
    catalog.problem = Unavailable("the database does not answer")
    answer = await _answer(http, _asked("CREATE", document))
    assert not answer["allowed"]
    assert (answer["status"]["code"], answer["status"]["reason"]) == (503, "NotRecorded")
    assert "try again" in answer["status"]["message"]


@pytest.mark.parametrize(
    ("before", "after"), [(_run(), _run(dryRun=True)), (_approval(), _approval(reason="no"))], ids=["run", "yes"]
)
async def test_the_spec_of_a_run_or_an_approval_cannot_be_changed(
    http: httpx2.AsyncClient, catalog: Catalog, before: dict[str, Any], after: dict[str, Any]
) -> None:
    answer = await _answer(http, _asked("UPDATE", after, oldObject=before, user=OPERATOR))
    assert (answer["status"]["code"], answer["status"]["reason"]) == (422, "SpecImmutable")
    assert f"spec of a {before['kind']} cannot be changed" in answer["status"]["message"]
    assert catalog.asked == []


@pytest.mark.parametrize(("user", "requester"), [(JANE, JANE), (JANE, ""), (OPERATOR, "holmes")])
async def test_a_run_may_be_asked_for_in_ones_own_name_and_by_the_operator_in_any(
    http: httpx2.AsyncClient, user: str, requester: str
) -> None:
    assert (await _answer(http, _asked("CREATE", _run(requester=requester), user=user)))["allowed"]


@pytest.mark.parametrize("requester", [OPERATOR, "bob", {"a": 1}])
async def test_a_run_in_the_name_of_somebody_else_is_denied(
    http: httpx2.AsyncClient, catalog: Catalog, requester: Any
) -> None:
    answer = await _answer(http, _asked("CREATE", _run(requester=requester)))
    assert (answer["status"]["code"], answer["status"]["reason"]) == (403, "RequesterForged")
    assert answer["status"]["message"].startswith(f"spec.requester: must be absent or your own name, '{JANE}'")
    assert catalog.asked == []


async def test_without_a_known_operator_nobody_asks_in_the_name_of_others() -> None:
    catalog = Catalog()
    judge = Validator(check=catalog.check, records=catalog, operator_user="", metrics=OperatorMetrics())
    app = application(judge, token=TOKEN)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="https://webhook") as http:
        assert not (await _answer(http, _asked("CREATE", _run(requester="bob"))))["allowed"]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_a_contract_is_denied_with_the_field_the_value_and_the_rule(
    http: httpx2.AsyncClient, operation: str
) -> None:
    document = _contract(during={"timeZone": "Europe/Nowhere"})
    answer = await _answer(http, _asked(operation, document, oldObject=_contract()))
    assert (answer["status"]["code"], answer["status"]["reason"]) == (422, "Invalid")
    assert "rules.0.match.during.timeZone: must be a time zone" in answer["status"]["message"]
    assert "'Europe/Nowhere'" in answer["status"]["message"]


async def test_a_misspelt_limit_of_a_rule_is_denied_rather_than_dropped(http: httpx2.AsyncClient) -> None:
    answer = await _answer(http, _asked("CREATE", _contract(namespace=["shop"])))
    assert "rules.0.match.namespace: is unknown" in answer["status"]["message"]


async def test_a_good_contract_passes_and_is_no_matter_of_record(http: httpx2.AsyncClient, catalog: Catalog) -> None:
    assert (await _answer(http, _asked("CREATE", _contract(namespaces=["shop"]))))["allowed"]
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
        json.dumps(_review("CREATE", userInfo=None, object=_object())).encode(),
        json.dumps(_review("CREATE", userInfo={"groups": []}, object=_object())).encode(),
        json.dumps(_asked("CREATE", _run() | {"metadata": {"name": "one", "namespace": "shop"}})).encode(),
        json.dumps(_review("CREATE", kind="RemediationWorkflow", object=_object())).encode(),
    ],
)
async def test_a_body_that_is_no_review_is_refused_in_one_line(http: httpx2.AsyncClient, body: bytes) -> None:
    reply = await http.post(GOVERNANCE, content=body)
    assert reply.status_code == 400
    assert reply.text
    assert "\n" not in reply.text


@pytest.mark.parametrize("spec", [None, [], "text", {}, {"labels": 5}])
async def test_whatever_stands_for_a_spec_is_answered_and_never_a_crash(http: httpx2.AsyncClient, spec: Any) -> None:
    answer = await _answer(http, _review("CREATE", object=_object() | {"spec": spec}))
    assert answer["status"]["message"].startswith("spec")
    for document, passes in ((_run(), True), (_approval(), True), (_contract(), False)):
        answer = await _answer(http, _asked("CREATE", document | {"spec": spec}))
        assert answer["allowed"] is passes, "schemas are for the API server to judge"


async def test_a_body_beyond_the_limit_is_not_read(http: httpx2.AsyncClient) -> None:
    reply = await http.post(GOVERNANCE, content=b" " * (MAX_BODY_BYTES + 1))
    assert (reply.status_code, reply.text) == (413, "the body is larger than 3 MiB")


@pytest.mark.parametrize(
    "secret", ["", TOKEN, path_of("records.formulary.dev", token=TOKEN)[-64:], "\u00e9", GOVERNANCE[-64:-1]]
)
async def test_who_does_not_know_the_path_hears_nothing(
    http: httpx2.AsyncClient, catalog: Catalog, secret: str
) -> None:
    for review in (_asked("CREATE", _approval()), {}):
        reply = await http.post(f"/validate/{secret}", json=review)
        assert (reply.status_code, reply.text) == (404, "Not Found")
    assert catalog.asked == []


async def test_who_knows_one_path_can_ask_nothing_of_another(http: httpx2.AsyncClient, catalog: Catalog) -> None:
    about_a_workflow = _review("CREATE", object=_object())
    for path, review in ((GOVERNANCE, about_a_workflow), (WORKFLOWS, _asked("CREATE", _approval()))):
        reply = await http.post(path, json=review)
        assert (reply.status_code, reply.text) == (404, "Not Found")
    assert catalog.asked == []


async def test_a_record_of_an_object_never_passes_for_that_of_a_contract(
    http: httpx2.AsyncClient, catalog: Catalog
) -> None:
    document = _approval()
    document["metadata"]["uid"] = author_key({"uid": "u-2", "generation": 2})
    assert not (await _answer(http, _asked("CREATE", document)))["allowed"]
    assert catalog.asked == []


def _counted(metrics: OperatorMetrics) -> dict[tuple[str, str], float]:
    """How often the webhook judged, by kind and outcome."""
    (family,) = [each for each in metrics.registry.collect() if each.name == "formulary_admission_reviews"]
    totals = [sample for sample in family.samples if sample.name.endswith("_total")]
    return {(sample.labels["kind"], sample.labels["outcome"]): sample.value for sample in totals}


async def test_each_verdict_is_counted_by_kind_and_outcome(
    http: httpx2.AsyncClient, catalog: Catalog, metrics: OperatorMetrics
) -> None:
    await _answer(http, _asked("CREATE", _approval()))
    await _answer(http, _asked("CREATE", _run(requester="bob")))
    await _answer(http, _asked("DELETE", _run(), oldObject=_run()))
    catalog.problem = Unavailable("the database does not answer")
    await _answer(http, _asked("CREATE", _approval()))
    await _answer(http, _review("UPDATE", object=_object(what="Other."), oldObject=_object()))
    catalog.problem = RuntimeError("unexpected")
    await _post(http, _asked("CREATE", _run()))
    assert _counted(metrics) == {
        ("invocationapprovals", "allowed"): 1,
        ("workflowinvocations", "refused"): 1,
        ("invocationapprovals", "failed"): 1,
        ("remediationworkflows", "failed"): 1,
        ("workflowinvocations", "failed"): 1,
    }


async def test_what_goes_wrong_inside_is_no_verdict(http: httpx2.AsyncClient, catalog: Catalog) -> None:
    catalog.problem = RuntimeError("secret detail")
    reply = await _post(http, _review("UPDATE", object=_object(what="Other."), oldObject=_object()))
    assert reply.status_code == 500
    assert "secret detail" not in reply.text


async def _verdict(http: httpx2.AsyncClient, review: dict[str, Any]) -> dict[str, Any]:
    response: dict[str, Any] = (await _post(http, review)).json()["response"]
    return response


async def test_a_workflow_that_hides_text_is_kept_out_unless_it_is_being_suspended(http: httpx2.AsyncClient) -> None:
    hiding = _object(title="a\u202eb")
    denied = await _verdict(http, _review("CREATE", object=hiding))
    assert not denied["allowed"]
    assert denied["status"]["message"].startswith("spec.title: contains U+202E (RIGHT-TO-LEFT OVERRIDE)")
    suspending = _object(title="a\u202eb", suspend=True)
    assert (await _verdict(http, _review("UPDATE", object=suspending, oldObject=hiding)))["allowed"]
    assert not (await _verdict(http, _review("UPDATE", object=hiding, oldObject=suspending)))["allowed"]


async def test_a_contract_that_hides_text_is_kept_out_unless_it_is_the_emergency_stop(http: httpx2.AsyncClient) -> None:
    hiding = {"id": "freeze", "rationale": "no\u200breason"}
    denied = await _verdict(http, _asked("CREATE", _ours("GovernanceContract", rules=[hiding | {"effect": "ALLOW"}])))
    assert not denied["allowed"]
    assert denied["status"]["message"].startswith("spec.rules.0.rationale: contains U+200B (ZERO WIDTH SPACE)")
    halt = _ours("GovernanceContract", rules=[hiding | {"effect": "HALT"}])
    assert (await _verdict(http, _asked("CREATE", halt)))["allowed"]
