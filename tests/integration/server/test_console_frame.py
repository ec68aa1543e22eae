"""What every answer of the console has: headers, a frame without scripts of its own, words for what went wrong."""

import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from formulary_catalog.domain.console_address import DOCUMENTATION
from formulary_catalog.edges.console import templating
from formulary_catalog.edges.console.templating import NAVIGATION
from formulary_catalog.edges.http.middleware import MAX_BODY_BYTES
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import EVERYWHERE, KnownCallers, Rights
from support.serving import catalog, serving
from support.visiting import OWN_FORM, Page, visiting

STATIC = Path(templating.__file__).parent / "static"
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
}
PAGES = ["/console/waiting", "/console/health", "/console/sign-in", "/console/no/such/page", "/console/waiting?x=1"]
PARTS = ["/console/waiting/changes", "/console/health/now"]
REDIRECTS = ["/console", "/console/"]
FILES = ["/console/static/console.css", "/console/static/no.css"]


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres) -> AsyncIterator[CatalogParts]:
    async with catalog([], postgres=postgres, embedder=None) as empty:
        yield empty


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    reader = Rights(read={EVERYWHERE}, see={EVERYWHERE})
    async with serving(parts, authenticator=KnownCallers(reader=reader)) as at:
        yield at


@pytest.mark.parametrize("path", [*PAGES, *PARTS, *REDIRECTS, *FILES])
@pytest.mark.parametrize("bearer", ["reader", "unknown", ""])
async def test_every_answer_has_the_headers_that_protect_it(url: str, path: str, bearer: str) -> None:
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with httpx2.AsyncClient(base_url=url, headers=headers) as client:
        for answer in (await client.get(path), await client.post(path, headers=OWN_FORM)):
            if path == "/console" and answer.status_code == 405:
                continue
            policy = answer.headers["content-security-policy"]
            assert {part.strip() for part in policy.split(";")} == POLICY
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["x-content-type-options"] == "nosniff"
            if answer.request.method == "GET" and path != FILES[0]:
                assert answer.headers["cache-control"] == "no-store"


async def test_a_browser_that_looks_for_an_icon_by_itself_gets_it_without_credentials(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as client:
        answer = await client.get("/favicon.ico")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")


@pytest.mark.parametrize("path", [*PAGES, *PARTS])
async def test_nothing_of_a_page_is_run_or_styled_in_place(url: str, path: str) -> None:
    async with visiting(url, bearer="reader") as visitor:
        page = await visitor.get(path)
    for tag, given in page.elements:
        assert tag != "style"
        assert not [name for name in given if name == "style" or name.startswith(("on", "hx-on"))]
        for name in ("src", "href", "action", "hx-get"):
            assert (given.get(name) or "/").startswith(("/", "#", f"{DOCUMENTATION}/"))
    assert not re.search(r"<script(?![^>]*\ssrc=)", page.source)


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_says_where_one_is_and_leads_everywhere_else(url: str, path: str) -> None:
    async with visiting(url, bearer="reader") as visitor:
        page = await visitor.get(path)
    assert [tag for tag, _ in page.elements].count("h1") == 1
    assert ("html", {"lang": "en"}) in page.elements
    if path == "/console/sign-in":
        return
    assert ("a", {"class": "skip", "href": "#content"}) in page.elements
    links = [given for tag, given in page.elements if tag == "a"]
    assert any(given.get("href", "").startswith(f"{DOCUMENTATION}/docs/") for given in links)
    for name in NAVIGATION:
        (entry,) = [given for given in links if given.get("href") == f"/console/{name}" and "class" not in given]
        assert (entry.get("aria-current") == "page") is path.partition("?")[0].endswith(f"/{name}")


async def test_what_goes_wrong_is_a_page_with_its_status_and_words(url: str) -> None:
    async with visiting(url, bearer="reader") as visitor:
        missing = await visitor.get("/console/no/such/page")
        wrong = await visitor.get("/console/waiting?limit=0&x=<b>")
        method = await visitor.send("PUT", "/console/health")
    assert (missing.status, "Not found" in missing.text) == (404, True)
    assert (wrong.status, "This request is not valid" in wrong.text, "<b>" in wrong.source) == (400, True, False)
    assert (method.status, "Method Not Allowed" in method.text) == (405, True)


async def test_what_is_refused_before_the_console_sees_it_is_a_page_as_well(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as client:
        large = await client.post("/console/sign-in", data={"token": "x" * MAX_BODY_BYTES}, headers=OWN_FORM)
        elsewhere = await client.get("/console/sign-in", headers={"Host": "<b>.example"})
        of_rest = await client.get("/api/v1/workflows", headers={"Host": "console.example"})
    assert (large.status_code, elsewhere.status_code, of_rest.status_code) == (413, 421, 421)
    for answer in (large, elsewhere):
        page = Page(answer)
        assert "h1" in [tag for tag, _ in page.elements]
        assert "Go to the console" in page.text
        assert "<b>" not in page.source
        assert answer.headers["content-security-policy"].startswith("default-src 'none';")
        assert answer.headers["cache-control"] == "no-store"
    assert "this Host is not served" in of_rest.json()["error"]["message"]


async def test_files_are_kept_by_browsers_until_they_change(url: str) -> None:
    async with visiting(url, bearer="reader") as visitor:
        page = await visitor.get("/console/health")
        named = [
            str(given.get("href") or given.get("src"))
            for tag, given in page.elements
            if tag == "script" or (tag == "link" and given["rel"] in ("stylesheet", "icon"))
        ]
        assert len(named) == 5
        for address in named:
            answer = await visitor.client.get(address)
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["content-type"].partition(";")[0] in ("text/css", "text/javascript", "image/svg+xml")
            plain = await visitor.client.get(address.partition("?")[0])
            assert (plain.content, plain.headers["cache-control"]) == (answer.content, "public, no-cache")
            again = await visitor.client.get(address, headers={"If-None-Match": answer.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")


def test_files_of_others_are_those_that_the_page_beside_them_names() -> None:
    table = re.findall(
        r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \| .*`([\w.]+)` \|$", (STATIC / "README.md").read_text(), re.M
    )
    assert {name for name, _, _ in table} == {templating.HTMX, templating.PICO}
    for name, digest, licence in table:
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
        assert (STATIC / licence).exists()


def test_the_style_sheet_of_the_console_stays_small() -> None:
    assert len((STATIC / "console.css").read_text().splitlines()) < 200
