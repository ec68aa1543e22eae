"""The admission webhook: takes the questions of the API server over HTTPS and gives back the answers of a judge.

Who does not know the secret path is no API server and hears nothing, not even that there is a webhook.
"""

import asyncio
import json
from collections.abc import Sequence

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from formulary_catalog.errors import InvalidInput
from formulary_catalog.listening.connection_limits import ConnectionLimits
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.database.webhook_token import webhook_token
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.admission.certificates import CertificateSource, SelfSigned, ServingCertificate, directory
from formulary_operator.admission.configuration import WebhookConfiguration
from formulary_operator.admission.review import PREFIX, asked_at, question
from formulary_operator.admission.validator import Validator
from formulary_operator.api.names import Resource
from formulary_operator.kube.client import KubeClient
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.serving import served
from formulary_operator.settings import OperatorSettings

MAX_BODY_BYTES = 3 * 1024**2
"""Two versions of an object as large as etcd takes."""

_BODY_SECONDS = 10.0
_log = structlog.get_logger(__name__)


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


async def run_webhook(
    *, host: str, port: int, limits: ConnectionLimits, certificate: ServingCertificate, judge: Validator, token: str
) -> None:
    """Serve admission reviews over HTTPS, from when there is a certificate until cancelled.

    `token` is that of the paths which the API server knows.

    Raises:
        StartupError: the address cannot be listened on.
    """
    await certificate.obtain()
    app = application(judge, token=token)
    async with served(app, host=host, port=port, limits=limits, tls=certificate.context) as listening:
        _log.info("webhook_listening", host=host, port=listening)
        await certificate.keep_fresh()


def application(judge: Validator, *, token: str) -> Starlette:
    """The webhook as an application."""

    async def validate(request: Request) -> Response:
        asked = asked_at(request.path_params["secret"], token=token)
        if not asked:
            return _unknown()
        try:
            return await _reply(request, judge=judge, asked=asked)
        except InvalidInput as error:
            return PlainTextResponse(str(error), status_code=error.http_status)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:
            _log.exception("admission_review_failed")
            return PlainTextResponse("internal error; the log of the operator has it", status_code=500)

    return Starlette(routes=[Route(f"{PREFIX}/{{secret}}", validate, methods=["POST"])])


def _unknown() -> Response:
    return PlainTextResponse("Not Found", status_code=404)


async def _reply(request: Request, *, judge: Validator, asked: Sequence[Resource]) -> Response:
    body = await _body(request)
    if body is None:
        return PlainTextResponse(f"the body is larger than {MAX_BODY_BYTES // 1024**2} MiB", status_code=413)
    try:
        review = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("the body is not JSON, or nested too deep; send an AdmissionReview", field="body") from None
    about = question(review)
    if about.submission is not None and about.submission.resource not in asked:
        return _unknown()
    return JSONResponse(await judge.answer(about))


async def _body(request: Request) -> bytes | None:
    """The body; None if it is too large."""
    parts = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                parts += part
                if len(parts) > MAX_BODY_BYTES:
                    return None
    except TimeoutError:
        raise InvalidInput(f"the body did not arrive within {_BODY_SECONDS:g} s; send it again", field="body") from None
    return bytes(parts)
