"""Signing in leads somewhere else than into the console, or in the name of somebody else."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import EVERYWHERE, KnownCallers, Rights
from support.serving import catalog, serving
from support.visiting import visiting

SIGN_IN, TOKEN = "/console/sign-in", "ann"
PROXY = "a secret of the proxy with 32 bytes or more"
USERS = ("ann", "admin, bob", "admin,bob", "bob,", ",", "cn=ann,o=corp")


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres) -> AsyncIterator[CatalogParts]:
    async with catalog([], postgres=postgres, embedder=None) as opened:
        yield opened


@pytest.fixture(scope="module")
async def url(parts: CatalogParts, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    secret = Path(tmp_path_factory.mktemp("proxy")) / "secret"
    secret.write_text(PROXY)
    known = KnownCallers(**{user: Rights(read={EVERYWHERE}) for user in USERS})
    async with serving(parts, authenticator=known, console_proxy_secret_file=secret) as address:
        yield address


@pytest.mark.parametrize(
    "wanted",
    [
        "/console/..//evil.example",
        "/console/../../evil",
        "/console/..",
        "/console/./..",
        "/console/a/.",
        "/console//evil.example",
        "/console/a//b",
        "/console/%2e%2e//evil.example",
        "/console/%2E%2e/evil",
        "/console/.%2e/evil",
        "/console/%252e%252e/evil",
        "/console/%25252e./evil",
        "/console/%2f/evil.example",
        "/console/a%2F%2Fevil.example",
        "/console/%2e%2e%2fevil",
        "/console/%5c..%5cevil",
        "/console/%255cevil",
        "/console/..\\evil",
        "/%63onsole/../evil",
        "/console/..?next=/console/",
        "/console/..#a",
    ],
)
async def test_signing_in_leads_nowhere_but_into_the_console(url: str, wanted: str) -> None:
    async with visiting(url) as visitor:
        form = (await visitor.get(f"{SIGN_IN}?{httpx2.QueryParams({'next': wanted})}")).form(SIGN_IN)
        assert form.fields["next"] == "/console"
        visitor.client.follow_redirects = False
        page = await visitor.submit(form, token=TOKEN, next=wanted)
    assert (page.status, page.headers["location"]) == (303, "/console")


@pytest.mark.parametrize(
    "wanted",
    [
        "/console/waiting",
        "/console/incidents/rr-1..2",
        "/console/catalog/workflow/shop/web.restart@1.0.0",
        "/console/search?query=rm%20-rf%20/tmp//x/../y&incident=rr-1",
        "/console/incidents/caf%C3%A9%20now#event-3",
    ],
)
async def test_signing_in_leads_to_the_page_that_was_wanted(url: str, wanted: str) -> None:
    async with visiting(url) as visitor:
        form = (await visitor.get(SIGN_IN)).form(SIGN_IN)
        visitor.client.follow_redirects = False
        page = await visitor.submit(form, token=TOKEN, next=wanted)
    assert (page.status, page.headers["location"]) == (303, wanted)


async def visit(url: str, user: str) -> httpx2.Response:
    headers = {"X-Formulary-Proxy-Secret": PROXY, "X-Forwarded-User": user}
    async with httpx2.AsyncClient(base_url=url) as http:
        return await http.get("/console/waiting", headers=headers)


@pytest.mark.parametrize("user", USERS[1:])
async def test_two_users_that_a_proxy_joined_are_nobody(url: str, user: str) -> None:
    refused = await visit(url, user)

    assert (await visit(url, "ann")).status_code == 200
    assert refused.status_code == 401
    assert "X-Forwarded-User".lower() in refused.text.lower()
    assert "holds a comma" in refused.text
