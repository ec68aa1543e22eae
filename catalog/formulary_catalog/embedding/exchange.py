"""One HTTP exchange with an embedding endpoint: bounded in time and size, and never trusted."""

import asyncio
import json
from ipaddress import ip_address
from typing import Any

import httpx2

from formulary_catalog.errors import EmbedderUnavailable, TextsRefused

_MOST_SECONDS_OFF = 30.0
_REFUSED = (400, 413, 422)
_PASSING = (408, 424, 425, 429, 500, 502, 503, 504)


class EndpointFailed(EmbedderUnavailable):
    """The endpoint gave no vectors.

    `answered` says whether it said anything at all, `passes` whether the same question may be answered later, and
    `retry_after` how many seconds later at the earliest.
    """

    def __init__(self, message: str, *, answered: bool = True, passes: bool = False, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.answered = answered
        self.passes = passes
        self.retry_after = retry_after


class Exchange:
    """Talks to one endpoint over kept connections, on the event loop of its caller."""

    def __init__(self, url: str, *, api_key: str = "") -> None:
        """Nothing is sent yet. `EndpointFailed` if the key or the host's name cannot be sent at all, or if what the
        environment says about certificates or proxies cannot be used."""
        self.url = url
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "formulary"}
        if not (api_key.isascii() and api_key.isprintable()):
            raise EndpointFailed("FORMULARY_EMBEDDING_API_KEY holds a character that no key may hold; set it again.")
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        try:
            self._client = httpx2.AsyncClient(
                base_url=url,
                headers=headers,
                follow_redirects=False,  # texts and key go where the operator said and nowhere else
                timeout=None,  # `json` bounds the whole exchange; the client's own timeouts begin again with every byte
                trust_env=not _is_loopback(httpx2.URL(url).host),
            )
        except httpx2.InvalidURL as error:
            raise self._failed("has no valid address") from error
        except (OSError, ValueError, ImportError) as error:
            raise self._failed(
                f"cannot be asked with what SSL_CERT_FILE, SSL_CERT_DIR or a proxy variable says "
                f"({type(error).__name__}); correct or unset it"
            ) from error

    async def json(self, method: str, path: str, *, body: Any = None, seconds: float, most_bytes: int) -> Any:
        """What the endpoint answers. The time is that of all of it, from the connection to the last byte.

        Raises `TextsRefused` if it does not take this body, else `EndpointFailed`.
        """
        try:
            async with asyncio.timeout(seconds):
                content = await self._content(method, path, body=body, most_bytes=most_bytes)
        except TimeoutError as error:
            raise self._failed(f"did not answer within {seconds:.1f} s", answered=False, passes=True) from error
        except (httpx2.HTTPError, OSError) as error:
            problem = f"cannot be reached or broke off ({type(error).__name__})"
            raise self._failed(problem, answered=False, passes=True) from error
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self._failed("answers with something else than JSON", passes=True) from error

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def _content(self, method: str, path: str, *, body: Any, most_bytes: int) -> bytes:
        async with self._client.stream(method, path, json=body) as response:
            self._check(response)
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > most_bytes:
                    raise self._failed(f"answers with more than {most_bytes} bytes")
            return bytes(content)

    def _check(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status in _REFUSED:
            raise TextsRefused(f"The embedding endpoint {self.url} does not take these texts (status {status}).")
        if status in (401, 403):
            raise self._failed(f"refuses the key (status {status}); check FORMULARY_EMBEDDING_API_KEY")
        if 300 <= status < 400:
            raise self._failed(f"sends elsewhere (status {status}), which is not followed; give its final address")
        if status != 200:
            raise self._failed(
                f"answers with status {status}", passes=status in _PASSING, retry_after=_retry_after(response)
            )
        if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
            raise self._failed("answers with something else than JSON", passes=True)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise self._failed("compresses its answers, which it was asked not to")

    def _failed(
        self, problem: str, *, answered: bool = True, passes: bool = False, retry_after: float = 0.0
    ) -> EndpointFailed:
        return EndpointFailed(
            f"The embedding endpoint {self.url} {problem}.", answered=answered, passes=passes, retry_after=retry_after
        )


def _retry_after(response: httpx2.Response) -> float:
    """Seconds; the other form, a date, is for people and counts as none."""
    delay = response.headers.get("Retry-After", "")
    return min(float(delay), _MOST_SECONDS_OFF) if delay.isascii() and delay.isdigit() else 0.0


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
