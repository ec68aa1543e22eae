"""The admission webhook: says at apply time what reconciling would say later, in the same words.

It is a help and no gate: what it lets pass because it could not tell, reconciling judges.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.errors import InvalidInput, InvalidManifest, Unavailable
from formulary_operator.certificates import ServingCertificate
from formulary_operator.core import admission
from formulary_operator.core.finding import refused
from formulary_operator.core.translate import entry_of
from formulary_operator.serving import served

PATH = "/validate"
MAX_BODY_BYTES = 3 * 1024**2
"""Two versions of an object as large as etcd takes."""

_BODY_SECONDS = 10.0
_CHECK_SECONDS = 2.0
_NOT_ASKED = "the catalog does not answer, so spec.version was not checked; the status will tell"

Check = Callable[[CatalogEntry], Awaitable[None]]
"""Raises VersionImmutable if the catalog would not take the entry, Unavailable if it cannot tell."""

_log = structlog.get_logger(__name__)


async def run_webhook(*, host: str, port: int, certificate: ServingCertificate, check: Check) -> None:
    """Serve admission reviews over HTTPS, from when there is a certificate until cancelled.

    Raises:
        StartupError: the address cannot be listened on.
    """
    await certificate.obtain()
    async with served(application(check), host=host, port=port, tls=certificate.context) as listening:
        _log.info("webhook listening", host=host, port=listening)
        await certificate.keep_fresh()


def application(check: Check) -> Starlette:
    """The webhook as an application."""

    async def validate(request: Request) -> Response:
        try:
            return await _reply(request, check=check)
        except InvalidInput as error:
            return PlainTextResponse(str(error), status_code=error.http_status)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:
            _log.exception("admission review failed")
            return PlainTextResponse("internal error; the log of the operator has it", status_code=500)

    return Starlette(routes=[Route(PATH, validate, methods=["POST"])])


async def _reply(request: Request, *, check: Check) -> Response:
    body = await _body(request)
    if body is None:
        return PlainTextResponse(f"the body is larger than {MAX_BODY_BYTES // 1024**2} MiB", status_code=413)
    try:
        review = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("the body is not JSON, or nested too deep; send an AdmissionReview", field="body") from None
    return JSONResponse(await judge(admission.question(review), check=check))


async def judge(question: admission.Question, *, check: Check) -> dict[str, object]:
    """The AdmissionReview that answers a question."""
    if question.workflow is None:
        return admission.allowed(question.uid)
    try:
        entry = entry_of(question.workflow)
        # A new object cannot change a version. If the catalog has it, the object before it was deleted a moment ago.
        if question.operation == "UPDATE":
            async with asyncio.timeout(_CHECK_SECONDS):
                await check(entry)
    except InvalidManifest as error:
        return admission.denied(question.uid, refused(error, current=None))
    except (Unavailable, TimeoutError) as error:
        _log.warning("version not checked", error=str(error) or "no answer in time")
        return admission.allowed(question.uid, warnings=[_NOT_ASKED])
    return admission.allowed(question.uid)


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
