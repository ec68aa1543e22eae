"""A running server as the commands reach it: one client, its errors as the exceptions that they were raised as."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
from pydantic import ValidationError

from formulary_catalog.cli.hosts import is_loopback
from formulary_catalog.domain.answers import Answer
from formulary_catalog.errors import (
    FormularyError,
    InvalidInput,
    NoExecutor,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NotInvocable,
    RateLimited,
    RunFailed,
    RunRefused,
    RunTimedOut,
    Unavailable,
)

_A = TypeVar("_A", bound=Answer)


class Remote:
    """A server by its address."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    @property
    def url(self) -> str:
        return str(self._client.base_url).rstrip("/")

    async def answer(self, kind: type[_A], method: str, path: str, *, in_result: bool = False, **options: Any) -> _A:
        """The answer to one request; `in_result` takes it out of the envelope of JSON-RPC.

        Raises:
            FormularyError: the server's own, or Unavailable where it does not answer.
        """
        try:
            response = await self._client.request(method, f"/api/v1{path}", **options)
        except httpx.ConnectError:
            raise Unavailable(
                f"no server at {self.url}; start one with `formulary up`, or name another with --url"
            ) from None
        except UnicodeEncodeError:
            raise InvalidInput("what was given holds bytes that are no text; give it as UTF-8", field="input") from None
        except httpx.HTTPError as error:
            raise Unavailable(f"the server at {self.url} does not answer ({type(error).__name__}); retry") from None
        if response.status_code != 200:
            raise _error(response, url=self.url)
        try:
            if in_result:
                return kind.model_validate(response.json()["result"])
            return kind.model_validate_json(response.content)
        except (ValidationError, ValueError, LookupError, TypeError):
            raise Unavailable(
                f"the server at {self.url} does not answer like this version of Formulary; check --url and the versions"
            ) from None


@asynccontextmanager
async def connected(url: str, *, token: str = "", seconds: float) -> AsyncIterator[Remote]:
    """The server at this address, asked with a bearer token if there is one; each answer may take so many seconds.

    Raises:
        InvalidInput: it is no HTTP address, or the token could not be sent.
    """
    if not (token.isascii() and token.isprintable()):
        raise InvalidInput("FORMULARY_TOKEN holds characters that no token has; set the token alone", field="token")
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL()
    if address.scheme not in ("http", "https") or not address.host:
        raise InvalidInput(f"--url {url!r} is not an HTTP address; give one such as http://127.0.0.1:8080", field="url")
    # A proxy of the environment cannot reach our own loopback.
    trust_env = not is_loopback(address.host)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=seconds, trust_env=trust_env) as client:
        yield Remote(client)


def incident_headers(remediation_id: str) -> dict[str, str]:
    """What names the incident of a call; nothing without one."""
    return {"X-Remediation-Id": remediation_id} if remediation_id else {}


def _error(response: httpx.Response, *, url: str) -> FormularyError:
    """The server's error as the one it was raised as."""
    try:
        problem = response.json()["error"]
        message, data = str(problem["message"]), problem.get("data") or {}
        field = str(problem.get("field") or data.get("field") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return Unavailable(f"the server at {url} answers {response.status_code}; check that it is a Formulary server")
    if "invocation_id" in data:
        return _run_error(response.status_code, message, data=data)
    match response.status_code:
        case 404:
            return NotFound(message, reference="")
        case 401:
            return NotAuthenticated(message)
        case 403:
            return NotAllowed(message)
        case 400 if problem.get("code") == NotInvocable.rpc_code:
            return NotInvocable(message)
        case 400 | 413:
            return InvalidInput(message, field=field)
        case 429:
            return RateLimited(message, retry_after=float(data.get("retry_after_seconds") or 0))
        case 500 if data.get("retry") is False:
            return NoExecutor(message)
        case _:
            return Unavailable(message)


def _run_error(status: int, message: str, *, data: Mapping[str, Any]) -> FormularyError:
    """How a run ended that the server knows by its id."""
    invocation_id = str(data["invocation_id"])
    match status:
        case 403:
            return RunRefused(message, invocation_id=invocation_id, decision=data.get("decision") or {})
        case 408:
            return RunTimedOut(message, invocation_id=invocation_id)
        case _:
            return RunFailed(message, invocation_id=invocation_id)
