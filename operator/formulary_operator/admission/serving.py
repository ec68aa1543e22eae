"""Puts the admission webhook together: its certificate, its secret paths, and what judges.

`runtime` runs it where the settings name a port.
"""

from formulary_catalog.errors import InvalidInput
from formulary_catalog.listening.connection_limits import ConnectionLimits
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.database.webhook_token import webhook_token
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.admission.certificates import CertificateSource, ServingCertificate, directory
from formulary_operator.admission.configuration import WebhookConfiguration
from formulary_operator.admission.selfsigned import SelfSigned
from formulary_operator.admission.validator import Validator
from formulary_operator.admission.webhook import run_webhook
from formulary_operator.kube.client import KubeClient
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings


async def serve_webhook(
    settings: OperatorSettings, *, client: KubeClient, database: Database, metrics: OperatorMetrics
) -> None:
    """Validate until cancelled. Every replica does, not only the leader.

    Raises:
        InvalidInput: there is no place for a certificate.
    """
    mounted = settings.webhook_cert_dir
    source = directory(mounted) if mounted is not None else _self_signed(settings, client=client)
    token = await webhook_token(database)
    configuration = WebhookConfiguration(client, name=settings.webhook_configuration, token=token)
    certificate = ServingCertificate(configuration.kept_for(source), client_authority=settings.webhook_client_ca_file)
    metrics.watch_webhook(
        settings.webhook_configuration, is_configured=configuration.is_set, expires_at=certificate.expires_at
    )
    await run_webhook(
        host=settings.webhook_host,
        port=settings.webhook_port,
        limits=ConnectionLimits(settings, server="webhook", metrics=metrics.connections),
        certificate=certificate,
        judge=Validator(
            check=CatalogWriter(database).check,
            records=AdmissionRecords(database),
            operator_user=settings.operator_user,
            metrics=metrics,
        ),
        token=token,
    )


def _self_signed(settings: OperatorSettings, *, client: KubeClient) -> CertificateSource:
    if not settings.lease_namespace:
        raise InvalidInput(
            "the self-signed certificate of the webhook is kept in a Secret of FORMULARY_LEASE_NAMESPACE; set that to "
            "the operator's namespace, or mount a certificate and set FORMULARY_WEBHOOK_CERT_DIR",
            field="lease_namespace",
        )
    return SelfSigned(
        client,
        namespace=settings.lease_namespace,
        secret=settings.webhook_secret,
        service=settings.webhook_service,
    ).current
