"""The admission webhook: takes the questions of the API server over HTTPS and gives back the answers of a judge."""

import asyncio
import json

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from formulary_catalog.errors import InvalidInput
from formulary_catalog.listening.gate import Gate
from formulary_operator.admission.certificates import ServingCertificate
from formulary_operator.admission.review import question
from formulary_operator.admission.validator import Validator
from formulary_operator.serving import served

PATH = "/validate"
MAX_BODY_BYTES = 3 * 1024**2
"""Two versions of an object as large as etcd takes."""

_BODY_SECONDS = 10.0
_log = structlog.get_logger(__name__)


async def run_webhook(*, host: str, port: int, gate: Gate, certificate: ServingCertificate, judge: Validator) -> None:
    """Serve admission reviews over HTTPS, from when there is a certificate until cancelled.

    Raises:
        StartupError: the address cannot be listened on.
    """
    await certificate.obtain()
    async with served(application(judge), host=host, port=port, gate=gate, tls=certificate.context) as listening:
        _log.info("webhook listening", host=host, port=listening)
        await certificate.keep_fresh()


def application(judge: Validator) -> Starlette:
    """The webhook as an application."""

    async def validate(request: Request) -> Response:
        try:
            return await _reply(request, judge=judge)
        except InvalidInput as error:
            return PlainTextResponse(str(error), status_code=error.http_status)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:
            _log.exception("admission review failed")
            return PlainTextResponse("internal error; the log of the operator has it", status_code=500)

    return Starlette(routes=[Route(PATH, validate, methods=["POST"])])


async def _reply(request: Request, *, judge: Validator) -> Response:
    body = await _body(request)
    if body is None:
        return PlainTextResponse(f"the body is larger than {MAX_BODY_BYTES // 1024**2} MiB", status_code=413)
    try:
        review = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("the body is not JSON, or nested too deep; send an AdmissionReview", field="body") from None
    return JSONResponse(await judge.answer(question(review)))


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
