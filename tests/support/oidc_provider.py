"""A real OpenID provider on loopback: oidc-provider of npm, certified for OpenID, and a person who signs in there."""

import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from cryptography.hazmat.primitives.asymmetric import rsa
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from support.control_plane import free_port
from support.oidc_issuer import loopback_certificate
from support.toolcache import npm_packages
from support.waiting import wait_until

_VERSION = "9.13.3"
_PROGRAM = Path(__file__).with_suffix(".mjs")
_CALLBACK = "http://127.0.0.1:33418/callback"
"""Nobody listens there: the person's browser is played, and what it would be sent to is read from the redirect."""
_FORM = re.compile(r'action="([^"]+)".*?name="prompt" value="(\w+)"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """Its address, the authority that its certificate is verified with (PEM), and what it was asked."""

    url: str
    authority: Path
    log: Path

    @property
    def trust(self) -> ssl.SSLContext:
        """What a client takes its certificate by."""
        return ssl.create_default_context(cafile=str(self.authority))

    def is_known_to_api_server(self) -> bool:
        """Whether an API server has read where its keys are, which it does in its own time."""
        return "/.well-known/openid-configuration Go-http-client" in self.log.read_text()

    def sign_in(self, server: str, *, user: str) -> "SignIn":
        """What an MCP client of `server` signs its person in with."""
        return SignIn(self, server=server, user=user)


class SignIn:
    """The sign-in of the MCP SDK, with its person and their browser. `tokens` are what it got."""

    def __init__(self, provider: OidcProvider, *, server: str, user: str) -> None:
        self._provider = provider
        self._user = user
        self._came_back = ""
        self.tokens: OAuthToken | None = None
        self.registered: OAuthClientInformationFull | None = None
        self.auth = OAuthClientProvider(
            server,
            OAuthClientMetadata(
                client_name="an MCP client", redirect_uris=[AnyUrl(_CALLBACK)], token_endpoint_auth_method="none"
            ),
            storage=self,
            redirect_handler=self._browse,
            callback_handler=self._answer,
        )

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.registered

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.registered = client_info

    async def _browse(self, address: str) -> None:
        """Sign in and consent, until the provider sends the browser back to the client."""
        async with httpx2.AsyncClient(verify=self._provider.trust) as browser:
            answer = await browser.get(address)
            while not (location := answer.headers.get("location", "")).startswith(_CALLBACK):
                if location:
                    answer = await browser.get(urljoin(str(answer.url), location))
                    continue
                form = _FORM.search(answer.text)
                assert form is not None, f"{answer.status_code} {answer.text}"
                fields = {"prompt": form[2], "login": self._user, "password": "any"}
                answer = await browser.post(urljoin(str(answer.url), form[1]), data=fields)
        self._came_back = location

    async def _answer(self) -> AuthorizationCodeResult:
        query = {name: value for name, (value, *_) in parse_qs(urlsplit(self._came_back).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


@contextmanager
def oidc_provider(home: Path, *, audience: str) -> Iterator[OidcProvider]:
    """A provider whose access tokens are for this audience; its files are in `home`."""
    tools = npm_packages(f"oidc-provider-{_VERSION}", f"oidc-provider@{_VERSION}")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificate, private = loopback_certificate(home, key=key)
    provider = OidcProvider(f"https://127.0.0.1:{free_port()}", certificate, home / "provider.log")
    module = tools / "oidc-provider" / "lib" / "index.js"
    arguments = map(str, (_PROGRAM, module, provider.url, certificate, private, audience))
    with provider.log.open("wb") as output:
        process = subprocess.Popen(
            [tools / ".bin" / "node", *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        wait_until(lambda: _answers(provider), what="the provider to answer", shown=provider.log.read_text)
        yield provider
    finally:
        process.terminate()
        process.wait()


def _answers(provider: OidcProvider) -> bool:
    try:
        answer = httpx2.get(f"{provider.url}/.well-known/openid-configuration", verify=provider.trust, timeout=5)
    except httpx2.TransportError:
        return False
    return answer.status_code == 200
