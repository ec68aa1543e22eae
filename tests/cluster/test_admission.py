"""The admission webhook as the API server calls it: through a Service, with the operator's own certificate."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from formulary_catalog.store.catalog import CatalogWriter
from formulary_operator.api.names import SECRETS, VALIDATING_WEBHOOKS
from formulary_operator.certificates import ServingCertificate
from formulary_operator.core.translate import entry_of
from formulary_operator.issuing import CertificatePair, issue, usable
from formulary_operator.kube.client import KubeClient
from formulary_operator.selfsigned import SelfSigned
from formulary_operator.serving import served
from formulary_operator.webhook import PATH, application
from support.control_plane import ControlPlane, KubectlFailed
from support.kube_clients import connected
from support.manifest import text, workflow

SECRET = "webhook-certificate"
SERVICE = "webhook"
INVALID = workflow("invalid")
INVALID["spec"]["labels"]["severity"] = 5
PROBE = INVALID | {"metadata": {"name": "probe"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A namespace in which workflows are judged, and the names of what belongs to its webhook."""

    plane: ControlPlane
    client: KubeClient
    namespace: str

    @property
    def configuration(self) -> str:
        return f"formulary-{self.namespace}"

    @property
    def names(self) -> list[str]:
        return [f"{SERVICE}.{self.namespace}.svc"]

    def self_signed(self) -> SelfSigned:
        return SelfSigned(
            self.client,
            namespace=self.namespace,
            secret=SECRET,
            service=SERVICE,
            configuration=self.configuration,
        )

    async def apply(self, document: dict[str, Any], *options: str) -> str:
        """`kubectl apply`, while the webhook answers in this event loop."""
        arguments = ("apply", f"--namespace={self.namespace}", "--filename=-", *options)
        return await asyncio.to_thread(self.plane.kubectl, *arguments, input=text(document))

    async def denial(self, document: dict[str, Any], *options: str) -> str:
        """What kubectl says when the document is not taken."""
        with pytest.raises(KubectlFailed) as refused:
            await self.apply(document, *options)
        return str(refused.value)

    async def until_judged(self) -> None:
        """Wait until the API server has heard of the webhook: it learns so by a watch of its own."""
        async with asyncio.timeout(30):
            while True:
                try:
                    await self.apply(PROBE, "--dry-run=server")
                except KubectlFailed:
                    return
                await asyncio.sleep(0.2)

    async def stored_pair(self) -> CertificatePair:
        secret = await self.client.get(SECRETS.path(namespace=self.namespace, name=SECRET))
        assert secret is not None
        assert secret["type"] == "kubernetes.io/tls"
        data = {key: base64.b64decode(value) for key, value in secret["data"].items()}
        return CertificatePair(certificate=data["tls.crt"], key=data["tls.key"], authority=data["ca.crt"])

    async def trusted(self) -> list[bytes]:
        """The authorities that the API server trusts for each webhook of the configuration."""
        configuration = await self.client.get(VALIDATING_WEBHOOKS.path(name=self.configuration))
        assert configuration is not None
        return [base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in configuration["webhooks"]]


@pytest.fixture
async def place(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Place]:
    control_plane.kubectl("label", "namespace", namespace, f"judged={namespace}")
    async with connected(control_plane.kubeconfig) as client:
        yield Place(plane=control_plane, client=client, namespace=namespace)


def _configuration(place: Place, *, port: int) -> list[dict[str, Any]]:
    """As the chart would install them, but that the Service leads to loopback."""
    service = {"namespace": place.namespace, "name": SERVICE, "path": PATH, "port": port}
    webhook = {
        "name": "workflows.formulary.dev",
        "clientConfig": {"service": service},
        "rules": [
            {
                "apiGroups": ["kubernaut.ai"],
                "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["remediationworkflows"],
                "scope": "Namespaced",
            }
        ],
        "namespaceSelector": {"matchLabels": {"judged": place.namespace}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": place.namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": place.configuration},
            "webhooks": [webhook],
        },
    ]


@asynccontextmanager
async def _configured(place: Place, *, port: int) -> AsyncIterator[None]:
    await asyncio.to_thread(place.plane.apply, *_configuration(place, port=port), namespace=place.namespace)
    try:
        yield
    finally:
        path = VALIDATING_WEBHOOKS.path(name=place.configuration)
        await asyncio.to_thread(place.plane.kubectl, "delete", "--raw", path)


@asynccontextmanager
async def _judging(place: Place, catalog: CatalogWriter) -> AsyncIterator[ServingCertificate]:
    """The webhook runs, and the API server asks it."""
    certificate = ServingCertificate(place.self_signed().current)
    async with (
        served(application(catalog.check), host="localhost", port=0, tls=certificate.context) as port,
        _configured(place, port=port),
    ):
        await certificate.load()
        await place.until_judged()
        yield certificate


async def test_an_invalid_workflow_is_denied_with_the_field_and_what_is_wrong(
    place: Place, workflows: CatalogWriter
) -> None:
    async with _judging(place, workflows):
        told = await place.denial(INVALID)
        assert '"workflows.formulary.dev" denied the request: spec.labels.severity: ' in told
        assert "(got 5)" in told
        assert await place.denial(INVALID, "--dry-run=server") == told


async def test_a_valid_workflow_passes_and_a_dry_run_leaves_nothing(place: Place, workflows: CatalogWriter) -> None:
    async with _judging(place, workflows):
        assert "created (server dry run)" in await place.apply(workflow("restart"), "--dry-run=server")
        assert "restart created" in await place.apply(workflow("restart"))
        assert "restart unchanged" in await place.apply(workflow("restart"))


async def test_other_content_under_a_stored_version_is_denied_and_under_a_new_one_passes(
    place: Place, workflows: CatalogWriter
) -> None:
    async with _judging(place, workflows):
        await place.apply(workflow("restart"))
        stored = place.plane.get("rw", "restart", f"--namespace={place.namespace}")
        await workflows.apply(entry_of(stored))
        told = await place.denial(workflow("restart", what="Deletes it."))
        assert "(VersionImmutable)" in told
        assert f"{place.namespace}/restart 1.0.0 is already stored with other content" in told
        assert "raise spec.version" in told
        assert "configured" in await place.apply(workflow("restart", version="1.0.1", what="Deletes it."))
        assert "configured" in await place.apply(workflow("restart", version="1.0.0"))
        assert "configured" in await place.apply(workflow("restart", suspend=True))


async def test_an_object_that_became_invalid_can_still_be_labelled_and_deleted(
    place: Place, workflows: CatalogWriter
) -> None:
    await place.apply(INVALID)
    async with _judging(place, workflows):
        name = ("rw", "invalid", f"--namespace={place.namespace}")
        await asyncio.to_thread(place.plane.kubectl, "label", *name, "team=shop")
        await asyncio.to_thread(place.plane.kubectl, "delete", *name)


async def test_while_the_webhook_is_down_everything_passes(place: Place, workflows: CatalogWriter) -> None:
    certificate = ServingCertificate(place.self_signed().current)
    async with AsyncExitStack() as stack:
        webhook = served(application(workflows.check), host="localhost", port=0, tls=certificate.context)
        async with webhook as port:
            await stack.enter_async_context(_configured(place, port=port))
            await certificate.load()
            await place.until_judged()
        assert "created" in await place.apply(INVALID)


async def test_a_certificate_is_renewed_before_it_ends_while_the_webhook_goes_on_judging(
    place: Place, workflows: CatalogWriter
) -> None:
    names = [*place.names, f"{SERVICE}.{place.namespace}.svc.cluster.local"]
    ending = issue(names, now=datetime.now(UTC) - timedelta(days=340))
    data = {"tls.crt": ending.certificate, "tls.key": ending.key, "ca.crt": ending.authority}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": place.namespace},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
    await place.client.create(SECRETS.path(namespace=place.namespace), secret)
    async with _judging(place, workflows) as certificate:
        renewed = await place.stored_pair()
        assert usable(renewed, names=names, now=datetime.now(UTC))
        assert await place.trusted() == [renewed.authority]
        assert renewed.authority.endswith(ending.authority)
        again = renewed
        for _ in range(2):
            await asyncio.to_thread(place.plane.kubectl, "delete", "secret", SECRET, f"--namespace={place.namespace}")
            await certificate.load()
            replaced, again = again, await place.stored_pair()
            assert again != replaced
            assert await place.trusted() == [again.authority]
            await place.until_judged()
            assert "spec.labels.severity" in await place.denial(INVALID)


async def test_replicas_that_start_at_once_serve_the_same_certificate(place: Place) -> None:
    pairs = await asyncio.gather(*(place.self_signed().current() for _ in range(6)))
    assert set(pairs) == {await place.stored_pair()}


async def test_a_bundle_that_somebody_resets_is_set_again_and_the_rest_is_kept(place: Place) -> None:
    async with _configured(place, port=1):
        source = place.self_signed()
        pair = await source.current()
        reset = '[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]'
        arguments = ("validatingwebhookconfiguration", place.configuration, "--type=json", f"--patch={reset}")
        before = place.plane.get(*arguments[:2])
        place.plane.kubectl("patch", *arguments)
        assert await place.trusted() == [b""]
        assert await source.current() == pair
        assert place.plane.get(*arguments[:2])["webhooks"] == before["webhooks"]


async def test_a_secret_that_holds_something_else_is_filled(place: Place) -> None:
    empty = {"tls.crt": "", "tls.key": ""}
    metadata = {"name": SECRET, "namespace": place.namespace, "labels": {"kept": "yes"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": empty}
    await place.client.create(SECRETS.path(namespace=place.namespace), secret)
    assert await place.self_signed().current() == await place.stored_pair()
    kept = await place.client.get(SECRETS.path(namespace=place.namespace, name=SECRET))
    assert kept is not None
    assert kept["metadata"]["labels"] == {"kept": "yes"}
