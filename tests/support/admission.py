"""The admission webhook as the API server calls it: through a Service, with the operator's own certificate."""

import asyncio
import base64
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formulary_operator.admission.certificates import CertificateSource, SelfSigned, ServingCertificate
from formulary_operator.admission.configuration import WebhookConfiguration
from formulary_operator.admission.issuing import CertificatePair
from formulary_operator.admission.validator import Validator
from formulary_operator.admission.webhook import application
from formulary_operator.api.names import SECRETS, VALIDATING_WEBHOOKS
from formulary_operator.kube.client import KubeClient
from formulary_operator.serving import served
from support import charts
from support.connection_limits import connection_limits
from support.control_plane import ControlPlane, KubectlFailed
from support.manifest import text, workflow

SECRET = "webhook-certificate"
SERVICE = "webhook"
TOKEN = "5a" * 32
"""From which the secret paths follow."""
_CHART = {**charts.EXTERNAL, "webhook": {"enabled": True}}
INVALID = workflow("invalid")
"""A workflow that the schema of its kind lets pass, and the webhook does not."""
INVALID["spec"]["labels"]["severity"] = 5
_PROBE = INVALID | {"metadata": {"name": "probe"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A namespace in which objects are judged, and the names of what belongs to its webhook."""

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
        return SelfSigned(self.client, namespace=self.namespace, secret=SECRET, service=SERVICE)

    def source(self) -> CertificateSource:
        """The self-signed certificate, while the configuration is kept right."""
        return self.kept_configuration().kept_for(self.self_signed().current)

    def kept_configuration(self) -> WebhookConfiguration:
        return WebhookConfiguration(self.client, name=self.configuration, token=TOKEN)

    async def kubectl(self, *arguments: str, document: dict[str, Any] | None = None, user: Path | None = None) -> str:
        """What kubectl prints, for a user or the administrator, while the webhook answers in this event loop."""
        return await asyncio.to_thread(
            self.plane.kubectl,
            *arguments,
            f"--namespace={self.namespace}",
            input=text(document) if document is not None else None,
            kubeconfig=user,
        )

    async def apply(self, document: dict[str, Any], *options: str, user: Path | None = None) -> str:
        """`kubectl apply`."""
        return await self.kubectl("apply", "--filename=-", *options, document=document, user=user)

    async def denial(self, document: dict[str, Any], *options: str, user: Path | None = None) -> str:
        """What kubectl says when the document is not taken. Raises AssertionError if it is."""
        try:
            done = await self.apply(document, *options, user=user)
        except KubectlFailed as refused:
            return str(refused)
        raise AssertionError(f"it was taken: {done}")

    async def until_judged(self) -> None:
        """Wait until the API server has heard of the webhook: it learns so by a watch of its own."""
        async with asyncio.timeout(30):
            while True:
                try:
                    await self.apply(_PROBE, "--dry-run=server")
                except KubectlFailed as refused:
                    if "denied the request" in str(refused):
                        return
                await asyncio.sleep(0.2)

    async def stored_pair(self) -> CertificatePair:
        secret = await self.client.get(SECRETS.path(namespace=self.namespace, name=SECRET))
        assert secret is not None
        assert secret["type"] == "kubernetes.io/tls"
        data = {key: base64.b64decode(value) for key, value in secret["data"].items()}
        return CertificatePair(certificate=data["tls.crt"], key=data["tls.key"], authority=data["ca.crt"])

    async def trusted(self) -> set[bytes]:
        """The authorities that the API server trusts for the webhooks of the configuration."""
        configuration = await self.client.get(VALIDATING_WEBHOOKS.path(name=self.configuration))
        assert configuration is not None
        return {base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in configuration["webhooks"]}


@asynccontextmanager
async def configured(place: Place, *, port: int) -> AsyncIterator[None]:
    """As the chart installs them, but that the Service leads to this port of loopback, and for one namespace only."""
    await asyncio.to_thread(place.plane.apply, *_objects(place, port=port), namespace=place.namespace)
    try:
        yield
    finally:
        path = VALIDATING_WEBHOOKS.path(name=place.configuration)
        await asyncio.to_thread(place.plane.raw, "delete", path)


@asynccontextmanager
async def judging(place: Place, judge: Validator) -> AsyncIterator[ServingCertificate]:
    """The webhook runs, and the API server asks it."""
    certificate = ServingCertificate(place.source())
    async with (
        served(
            application(judge, token=TOKEN),
            host="localhost",
            port=0,
            limits=connection_limits(),
            tls=certificate.context,
        ) as port,
        configured(place, port=port),
    ):
        await certificate.load()
        await place.until_judged()
        yield certificate


def _objects(place: Place, *, port: int) -> list[dict[str, Any]]:
    rendered = copy.deepcopy(charts.only(charts.render(_CHART), "ValidatingWebhookConfiguration"))
    for webhook in rendered["webhooks"]:
        webhook["clientConfig"]["service"] |= {"namespace": place.namespace, "name": SERVICE, "port": port}
        webhook["namespaceSelector"] = {"matchLabels": {"judged": place.namespace}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": place.namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        rendered | {"metadata": {"name": place.configuration}},
    ]
