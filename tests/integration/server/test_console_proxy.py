"""People whom a proxy has signed in: believed from the proxy alone, and only at the console (DESIGN section 14)."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx2
import pytest

from formulary_catalog.edges.http.trusted_proxy import TrustedProxy
from formulary_catalog.errors import StartupError
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import KnownCallers, Rights
from support.serving import catalog, serving

SECRET = "c2VjcmV0IG9mIHRoZSBwcm94eSwgMzIgYnl0ZXMgb3IgbW9yZQ=="
WAITING = "/console/waiting"
BY_PROXY = {"X-Formulary-Proxy-Secret": SECRET, "X-Forwarded-User": "ann", "X-Forwarded-Groups": "oncall,shop"}


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres) -> AsyncIterator[CatalogParts]:
    async with catalog([], postgres=postgres, embedder=None) as opened:
        yield opened


@pytest.fixture(scope="module")
async def url(parts: CatalogParts, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    secret = tmp_path_factory.mktemp("proxy") / "secret"
    secret.write_text(f"{SECRET}\n")
    known = KnownCallers(ann=Rights(read=["*"]))
    async with serving(parts, authenticator=known, console_proxy_secret_file=secret) as at:
        yield at


async def get(url: str, path: str, headers: dict[str, str] | Sequence[tuple[str, str]]) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url) as http:
        return await http.get(path, headers=headers)


async def test_who_comes_through_the_proxy_sees_the_page_under_its_own_name(url: str) -> None:
    page = await get(url, WAITING, BY_PROXY)

    assert page.status_code == 200
    assert "ann" in page.text


@pytest.mark.parametrize("secret", ["", "guess", SECRET[:-1], SECRET + "x"])
async def test_without_the_secret_the_name_of_a_user_is_a_text_of_a_stranger(url: str, secret: str) -> None:
    page = await get(url, WAITING, BY_PROXY | {"X-Formulary-Proxy-Secret": secret})

    assert page.status_code == 401
    assert "did not prove itself" in page.text
    assert SECRET not in page.text


async def test_the_name_of_a_user_alone_leads_to_the_sign_in_page(url: str) -> None:
    page = await get(url, WAITING, {"X-Forwarded-User": "ann", "X-Forwarded-Groups": "system:masters"})

    assert (page.status_code, page.headers["location"]) == (303, "/console/sign-in?next=%2Fconsole%2Fwaiting")


@pytest.mark.parametrize("again", ["X-Forwarded-User", "X-Forwarded-Groups", "X-Formulary-Proxy-Secret"])
async def test_a_header_that_is_there_twice_is_not_believed(url: str, again: str) -> None:
    page = await get(url, WAITING, [*BY_PROXY.items(), (again, BY_PROXY[again])])

    assert page.status_code == 401


@pytest.mark.parametrize("user", ["", "a" * 257, "mallory"])
async def test_a_user_that_nobody_knows_is_refused(url: str, user: str) -> None:
    page = await get(url, WAITING, BY_PROXY | {"X-Forwarded-User": user})

    assert page.status_code == 401


@pytest.mark.parametrize("path", ["/api/v1/invocations", "/api/v1/workflows"])
async def test_the_api_takes_tokens_alone(url: str, path: str) -> None:
    answered = await get(url, path, BY_PROXY)

    assert answered.status_code == 401


@pytest.mark.parametrize("content", [None, "too short"])
def test_a_secret_that_is_none_stops_the_start(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_text(content)

    with pytest.raises(StartupError, match="FORMULARY_CONSOLE_PROXY_SECRET_FILE"):
        TrustedProxy.load(path)
