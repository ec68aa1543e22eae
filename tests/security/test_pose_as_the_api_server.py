"""A pod calls the admission webhook to have itself recorded as the author of a workflow, or as the creator of a run."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from formulary_catalog.errors import StartupError
from formulary_operator.admission.certificates import ServingCertificate
from formulary_operator.admission.issuing import CertificatePair, issue
from formulary_operator.admission.review import path_of
from formulary_operator.admission.validator import Validator
from formulary_operator.admission.webhook import application
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.serving import served
from support.admission import TOKEN, Place, configured, judging
from support.client_certificates import Authority
from support.cluster import fetch
from support.connection_limits import connection_limits
from support.manifest import approval, invocation, workflow

NOW = datetime.now(UTC)
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "formulary.dev", "version": "v1alpha1", "kind": "InvocationApproval"},
        "resource": {"group": "formulary.dev", "version": "v1alpha1", "resource": "invocationapprovals"},
        "namespace": "shop",
        "name": "forged",
        "userInfo": {"username": "alice"},
        "object": {
            "apiVersion": "formulary.dev/v1alpha1",
            "kind": "InvocationApproval",
            "metadata": {"namespace": "shop", "name": "forged", "uid": "u-1"},
            "spec": {"decision": "Approve"},
        },
    },
}

MASTER = {"username": "admin", "groups": ["system:masters"]}
WRONG = ["/", "/validate", "/validate/", f"/validate/{'0' * 64}", f"/validate/{TOKEN}"]


def _review(place: Place, document: dict[str, Any], *, kind: tuple[str, str]) -> dict[str, Any]:
    """What the API server would ask if the administrator created this."""
    group, named = kind
    metadata = document["metadata"] | {"namespace": place.namespace, "uid": "u-1", "generation": 1}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "kind": {"group": group, "version": "v1alpha1", "kind": named},
            "namespace": place.namespace,
            "name": metadata["name"],
            "userInfo": MASTER,
            "object": document | {"metadata": metadata},
        },
    }


def _forged(place: Place) -> list[dict[str, Any]]:
    """A workflow that the administrator has written, and a run that the administrator asks for."""
    return [
        _review(place, workflow("forged"), kind=("kubernaut.ai", "RemediationWorkflow")),
        _review(place, invocation("forged"), kind=("formulary.dev", "WorkflowInvocation")),
    ]


async def _recorded(database: str) -> list[tuple[Any, ...]]:
    """The authors of workflows, and who created runs and approvals."""
    authors = "select identity ->> 'username' from formulary.workflow_author"
    creators = "select username from formulary.admission_record order by resource"
    return [row for query in (authors, creators) for row in await asyncio.to_thread(fetch, database, query)]


@asynccontextmanager
async def pod(place: Place) -> AsyncIterator[httpx2.AsyncClient]:
    """A client in the cluster, which reaches the port of the webhook."""
    found = place.plane.get("validatingwebhookconfiguration", place.configuration)
    port = found["webhooks"][0]["clientConfig"]["service"]["port"]
    trusting = ssl.create_default_context(cadata=b"".join(await place.trusted()).decode())
    trusting.check_hostname = False
    async with httpx2.AsyncClient(base_url=f"https://localhost:{port}", verify=trusting, trust_env=False) as client:
        yield client


class Recorded:
    """Who was recorded as a creator."""

    def __init__(self) -> None:
        self.usernames: list[str] = []

    async def record(
        self, *, resource: str, namespace: str, name: str, uid: str, username: str, identity: Mapping[str, Any]
    ) -> None:
        self.usernames.append(username)

    async def record_author(self, *, namespace: str, version_id: str, identity: Mapping[str, Any]) -> None:
        """No workflow is created here."""


@asynccontextmanager
async def webhook(recorded: Recorded, *, authority: Path) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """The webhook's address, and a context that trusts it."""
    pair = issue(["localhost"], now=NOW)

    async def source() -> CertificatePair:
        return pair

    async def check(entry: object) -> None:
        """The catalog takes everything."""

    certificate = ServingCertificate(source, client_authority=authority)
    await certificate.load()
    judge = Validator(check=check, records=recorded, operator_user="", metrics=OperatorMetrics())
    trusting = ssl.create_default_context(cadata=pair.authority.decode())
    async with served(
        application(judge, token=TOKEN), host="localhost", port=0, limits=connection_limits(), tls=certificate.context
    ) as port:
        yield f"https://localhost:{port}{path_of('governance.formulary.dev', token=TOKEN)}", trusting


async def test_a_review_that_comes_by_no_secret_path_is_answered_404_and_records_nobody(
    place: Place, judge: Validator, database: str
) -> None:
    async with judging(place, judge), pod(place) as mallory:
        for path in WRONG:
            for review in _forged(place):
                assert (await mallory.post(path, json=review)).status_code == 404
        assert await _recorded(database) == []


async def test_the_api_server_knows_the_paths_and_whom_it_names_is_recorded(
    place: Place, judge: Validator, database: str
) -> None:
    async with judging(place, judge):
        for document in (workflow("restart"), invocation("one"), approval("one")):
            await place.apply(document)
    assert await _recorded(database) == [("admin",)] * 3


async def test_the_api_server_shows_no_path_while_the_webhook_is_down_and_nobody_is_recorded(
    place: Place, judge: Validator, database: str
) -> None:
    certificate = ServingCertificate(place.source())
    app = application(judge, token=TOKEN)
    async with AsyncExitStack() as stack:
        async with served(app, host="localhost", port=0, limits=connection_limits(), tls=certificate.context) as port:
            await stack.enter_async_context(configured(place, port=port))
            await certificate.load()
            await place.until_judged()
        for document in (workflow("passes"), invocation("passes"), approval("passes")):
            shown = await place.apply(document, "--warnings-as-errors", "--v=8")
            assert "created" in shown
            assert "/validate/" not in shown
    assert await _recorded(database) == []


@pytest.mark.parametrize("certificate", ["none", "of another authority"])
async def test_a_caller_without_a_certificate_of_the_authority_is_not_heard(tmp_path: Path, certificate: str) -> None:
    recorded, trusted, other = Recorded(), Authority(tmp_path / "api-server"), Authority(tmp_path / "mallory")
    async with webhook(recorded, authority=trusted.file) as (url, context):
        if certificate != "none":
            context.load_cert_chain(*other.client())
        async with httpx2.AsyncClient(verify=context, trust_env=False) as pod:
            with pytest.raises(httpx2.TransportError):
                await pod.post(url, json=REVIEW)
    assert recorded.usernames == []


async def test_the_api_server_is_heard(tmp_path: Path) -> None:
    recorded, trusted = Recorded(), Authority(tmp_path / "api-server")
    async with webhook(recorded, authority=trusted.file) as (url, context):
        context.load_cert_chain(*trusted.client())
        async with httpx2.AsyncClient(verify=context, trust_env=False) as api_server:
            answer = (await api_server.post(url, json=REVIEW)).json()
    assert answer["response"]["allowed"], answer
    assert recorded.usernames == ["alice"]


def test_a_file_without_certificates_stops_the_start(tmp_path: Path) -> None:
    wrong = tmp_path / "ca.crt"
    wrong.write_text("no certificate")

    async def source() -> CertificatePair:
        raise AssertionError("not asked")

    with pytest.raises(StartupError, match="FORMULARY_WEBHOOK_CLIENT_CA_FILE"):
        ServingCertificate(source, client_authority=wrong)
