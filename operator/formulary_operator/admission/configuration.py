"""The ValidatingWebhookConfiguration: keeps in it at which path the API server asks, and whom it trusts there."""

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import structlog

from formulary_operator.admission.certificates import CertificateSource
from formulary_operator.admission.issuing import CertificatePair
from formulary_operator.admission.review import path_of
from formulary_operator.api.names import VALIDATING_WEBHOOKS, Json
from formulary_operator.kube.client import KubeClient

_log = structlog.get_logger(__name__)


class WebhookConfiguration:
    """One configuration. Needs get and patch on it."""

    def __init__(self, client: KubeClient, *, name: str, token: str) -> None:
        self._client = client
        self._name = name
        self._token = token
        self._absence_reported = False
        self._is_set = False

    def is_set(self) -> bool:
        """Whether the configuration was as it has to be when it was last looked at."""
        return self._is_set

    def kept_for(self, source: CertificateSource) -> CertificateSource:
        """The same certificates. Before each is returned, the API server knows where to ask and trusts it.

        So the configuration is looked at as often as the certificate.
        """

        async def current() -> CertificatePair:
            pair = await source()
            await self.keep(authority=pair.authority)
            return pair

        return current

    async def keep(self, *, authority: bytes) -> None:
        """Set what is not as it has to be. Without an `authority` somebody else says whom to trust.

        Raises:
            KubernetesUnavailable, KubernetesRefused: it cannot be read or set.
        """
        path = VALIDATING_WEBHOOKS.path(name=self._name)
        configuration = await self._client.get(path)
        if configuration is None:
            self._is_set = False
            self._report_absence()
            return
        self._absence_reported = False
        webhooks = configuration.get("webhooks") or []
        wanted = [self._wanted(webhook, authority=authority) for webhook in webhooks]
        self._is_set = wanted == webhooks
        if self._is_set:
            return
        # The list is replaced whole: with the version that was read, a change in between is a conflict, not lost.
        version = configuration["metadata"]["resourceVersion"]
        await self._client.merge(path, {"metadata": {"resourceVersion": version}, "webhooks": wanted})
        self._is_set = True
        _log.info("webhook_configuration_set", configuration=self._name)

    def _wanted(self, webhook: Mapping[str, Any], *, authority: bytes) -> Json:
        path, client = path_of(webhook["name"], token=self._token), dict(webhook["clientConfig"])
        if "url" in client:
            client["url"] = urlsplit(client["url"])._replace(path=path).geturl()
        else:
            client["service"] = {**client["service"], "path": path}
        if authority:
            client["caBundle"] = base64.b64encode(authority).decode()
        return {**webhook, "clientConfig": client}

    def _report_absence(self) -> None:
        if not self._absence_reported:
            _log.warning(
                "webhook_configuration_missing",
                configuration=self._name,
                effect="nothing is validated at apply time until it exists",
            )
        self._absence_reported = True
