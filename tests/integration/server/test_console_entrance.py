"""Who gets into the console: nobody without credentials, and everybody out again (DESIGN section 14)."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import httpx2
import pytest
from cryptography.fernet import Fernet

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.console_address import FAVICON_PATH
from formulary_catalog.edges.console.router import router
from formulary_catalog.edges.console.sessions import SESSION_SECONDS, Sessions
from formulary_catalog.errors import InvalidInput, NotAuthenticated, Unavailable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.ended_sessions import EndedSessions
from support.access import KnownCallers, Rights
from support.runs import KEY
from support.services import open_parts
from support.serving import catalog, serving
from support.visiting import OWN_FORM, Form, Page, visiting

SIGN_IN, HOME = "/console/sign-in", "/console/waiting"
TOKEN, TOKEN_COOKIE = "sre_with_a_token", "formulary_session"


class People(KnownCallers):
    """Callers whose tokens can be revoked, and an API server that can be away."""

    def __init__(self) -> None:
        super().__init__(sre_with_a_token=Rights(), ana=Rights())
        self.revoked: set[str] = set()
        self.away = False

    async def authenticate(self, authorization: Sequence[str], *, address: str) -> Caller:
        if self.away:
            raise Unavailable("the API server does not answer; retry in a few seconds")
        caller = await super().authenticate(authorization, address=address)
        if caller.name in self.revoked:
            raise NotAuthenticated("the token is not known any more; send another one")
        return caller


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres) -> AsyncIterator[CatalogParts]:
    async with catalog([], postgres=postgres, embedder=None) as empty:
        yield empty


@pytest.fixture
def people() -> People:
    return People()


@pytest.fixture
async def url(parts: CatalogParts, people: People) -> AsyncIterator[str]:
    async with serving(parts, authenticator=people) as at:
        yield at


def asks_to_sign_in(page: Page) -> bool:
    return any(form.action == SIGN_IN for form in page.forms)


@pytest.mark.parametrize("path", sorted({str(getattr(route, "path", "")) for route in router.routes}))
async def test_without_credentials_every_page_leads_to_the_sign_in_page(url: str, path: str) -> None:
    concrete = path.replace("{path:path}", "any/thing").replace("{invocation_id}", "inv-1").replace("{name}", "x.css")
    is_open = path.startswith(("/console/static/", "/console/sign-", FAVICON_PATH))
    async with httpx2.AsyncClient(base_url=url) as stranger:
        got = await stranger.get(concrete, headers={"Accept": "text/html"})
        posted = await stranger.post(concrete, data={"decision": "Approve"}, headers=OWN_FORM)
        part = await stranger.get(concrete, headers={"HX-Request": "true", "Accept": "text/html"})
    if not is_open:
        assert (got.status_code, got.headers["location"].partition("?")[0]) == (303, SIGN_IN)
        assert (part.status_code, part.headers["hx-redirect"]) == (401, SIGN_IN)
    assert posted.status_code in (401, 403, 405)


@pytest.mark.parametrize("path", ["/api/v1/stats", "/mcp", "/", "/consoles", "/docs", "/console/../api/v1/stats"])
async def test_nothing_beside_the_console_is_reached_without_credentials(url: str, path: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    async with httpx2.AsyncClient(base_url=url) as stranger:
        answer = await stranger.request("POST" if path == "/mcp" else "GET", httpx2.URL(f"http://{host}:{port}{path}"))
    assert answer.status_code == 401


async def test_a_browser_that_asks_for_the_server_gets_to_the_console(url: str) -> None:
    async with visiting(url, bearer=TOKEN) as visitor:
        page = await visitor.get("/", accept="text/html,*/*")
    assert (page.status, "<h1>Overview</h1>" in page.source) == (200, True)


async def test_a_program_that_asks_for_the_server_gets_there_too(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}) as program:
        answer = await program.get("/", headers={"Accept": "application/json"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/overview")


async def test_who_pastes_a_token_gets_to_the_page_that_it_wanted(url: str) -> None:
    async with visiting(url) as visitor:
        page = await visitor.sign_in(TOKEN, path="/console/health?x=1")
        assert (page.status, "<h1>Health</h1>" in page.source) == (200, True)
        assert "Signed in as sre" in page.text
        assert (await visitor.get(HOME)).status == 200


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/console/",
        "//evil.example/console/",
        "/\\evil.example",
        "/console/\\evil",
        "/api/v1/stats",
        "javascript:1",
        "/console/a\r\nb: c",
    ],
)
async def test_signing_in_leads_nowhere_but_into_the_console(url: str, wanted: str) -> None:
    async with visiting(url) as visitor:
        form = (await visitor.get(SIGN_IN)).form(SIGN_IN)
        visitor.client.follow_redirects = False
        page = await visitor.submit(form, token=TOKEN, next=wanted)
    assert (page.status, page.headers["location"]) == (303, "/console")


@pytest.mark.parametrize(("token", "status"), [("s3cret-unknown", 401), ("", 400), ("a b\x00", 401), ("é" * 20, 401)])
async def test_a_token_that_proves_nothing_is_refused_and_not_repeated(url: str, token: str, status: int) -> None:
    async with visiting(url) as visitor:
        page = await visitor.sign_in(token)
        assert page.status == status
        assert asks_to_sign_in(page)
        assert "s3cret" not in page.source
        assert asks_to_sign_in(await visitor.get(HOME))


async def session_cookie(url: str, headers: Mapping[str, str]) -> tuple[str, set[str]]:
    """What a browser has to keep of a session that begins with these headers: the pair, and the attributes."""
    async with httpx2.AsyncClient(base_url=url, headers=headers) as browser:
        page = await browser.get(SIGN_IN)
        visit = page.headers["set-cookie"].partition(";")[0]
        form = {**Page(page).form(SIGN_IN).fields, "token": TOKEN}
        begun = await browser.post(SIGN_IN, data=form, headers={**OWN_FORM, "Cookie": visit})
    (cookie,) = [each for each in begun.headers.get_list("set-cookie") if TOKEN_COOKIE in each]
    pair, *attributes = (part.strip() for part in cookie.split(";"))
    assert TOKEN not in cookie
    return pair, {attribute.casefold() for attribute in attributes}


async def test_over_http_the_cookie_is_for_the_console_alone_and_closed_to_scripts(url: str) -> None:
    pair, attributes = await session_cookie(url, {})
    assert pair.startswith(f"{TOKEN_COOKIE}=")
    assert attributes == {"httponly", "samesite=strict", "path=/console", f"max-age={SESSION_SECONDS}"}


HTTPS = {
    "a proxy that says what it speaks": {"X-Forwarded-Proto": "https"},
    "a proxy that passes the name of the host": {"Host": "formulary.example"},
}


@pytest.mark.parametrize("case", HTTPS)
async def test_over_https_the_cookie_belongs_to_this_host_alone(parts: CatalogParts, people: People, case: str) -> None:
    async with serving(parts, authenticator=people, allowed_hosts=("formulary.example",)) as url:
        pair, attributes = await session_cookie(url, HTTPS[case])
        assert pair.startswith(f"__Host-{TOKEN_COOKIE}=")
        assert attributes == {"httponly", "samesite=strict", "secure", "path=/", f"max-age={SESSION_SECONDS}"}
        async with httpx2.AsyncClient(base_url=url, headers={**HTTPS[case], "Cookie": pair}) as browser:
            page = Page(await browser.get(HOME))
            assert "Signed in as sre" in page.text
            out = await browser.post("/console/sign-out", data=page.form("/console/sign-out").fields, headers=OWN_FORM)
    forgotten = out.headers["set-cookie"].casefold()
    assert forgotten.startswith(f'__host-{TOKEN_COOKIE}=""; ')
    assert {"secure", "path=/", "max-age=0"} <= {part.strip() for part in forgotten.split(";")}


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_cookie_with_the_name_that_the_other_scheme_has_is_not_looked_at(url: str, scheme: str) -> None:
    forwarded = {"X-Forwarded-Proto": scheme}
    pair, _ = await session_cookie(url, forwarded)
    other = pair.removeprefix("__Host-") if scheme == "https" else f"__Host-{pair}"
    for cookie, status in ((pair, 200), (other, 303), (f"{other}; {pair}", 200), (f"{pair}; {other}", 200)):
        async with httpx2.AsyncClient(base_url=url, headers={**forwarded, "Cookie": cookie}) as browser:
            assert (await browser.get(HOME)).status_code == status


async def test_who_signs_out_stays_out_even_with_the_old_cookie(url: str) -> None:
    async with visiting(url) as visitor:
        page = await visitor.sign_in(TOKEN)
        old = visitor.client.cookies["formulary_session"]
        out = await visitor.submit(page.form("/console/sign-out"))
        assert asks_to_sign_in(out)
        assert "formulary_session" not in visitor.client.cookies
    async with httpx2.AsyncClient(base_url=url, cookies={"formulary_session": old}) as thief:
        assert (await thief.get(HOME)).status_code == 303


async def test_a_revoked_token_ends_its_session(url: str, people: People) -> None:
    async with visiting(url) as visitor:
        assert (await visitor.sign_in(TOKEN)).status == 200
        people.revoked.add(TOKEN)
        ended = await visitor.get(HOME)
        assert asks_to_sign_in(ended)
        assert "Your session has ended" in ended.text
        assert "formulary_session" not in visitor.client.cookies


async def test_while_nobody_can_be_checked_a_session_is_kept_and_nothing_shown(url: str, people: People) -> None:
    async with visiting(url) as visitor:
        await visitor.sign_in(TOKEN)
        people.away = True
        page = await visitor.get(HOME)
        assert (page.status, "The API server does not answer" in page.text) == (503, True)
        people.away = False
        assert (await visitor.get(HOME)).status == 200


async def test_a_proxy_that_passes_a_token_needs_no_session(url: str) -> None:
    async with visiting(url, bearer=TOKEN) as visitor:
        page = await visitor.get(HOME)
        assert (page.status, "Signed in as sre" in page.text) == (200, True)
        assert all(form.action != "/console/sign-out" for form in page.forms)
    async with visiting(url, bearer="unknown") as visitor:
        refused = await visitor.get(HOME)
    assert (refused.status, asks_to_sign_in(refused)) == (401, False)


async def test_the_token_of_a_proxy_counts_rather_than_an_older_session(url: str) -> None:
    async with visiting(url) as visitor:
        await visitor.sign_in(TOKEN)
        assert "Signed in as ana" in (await visitor.get(HOME, Authorization="Bearer ana")).text


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The file of the key that replicas share."""
    file = tmp_path / "input.key"
    file.write_text(KEY)
    return file


async def status_with(cookies: Mapping[str, str], *, url: str) -> int:
    """What a browser with these cookies is answered; 303 leads it to the sign-in page."""
    async with httpx2.AsyncClient(base_url=url, cookies=dict(cookies)) as browser:
        return (await browser.get(HOME)).status_code


async def test_replicas_with_one_key_take_sessions_of_each_other_and_others_do_not(
    parts: CatalogParts, people: People, keys: Path
) -> None:
    async with (
        serving(parts, authenticator=people, input_key_file=keys) as first,
        serving(parts, authenticator=people, input_key_file=keys) as second,
        serving(parts, authenticator=people) as other,
        visiting(first) as visitor,
    ):
        await visitor.sign_in(TOKEN)
        cookies = dict(visitor.client.cookies)
        assert [await status_with(cookies, url=url) for url in (second, other)] == [200, 303]


@asynccontextmanager
async def replica(dsn: str, *, people: People, keys: Path, deadline: float = 30) -> AsyncIterator[str]:
    """The URL of a server with a connection to the database of its own."""
    async with (
        open_parts(dsn, deadline=deadline) as parts,
        serving(parts, authenticator=people, input_key_file=keys) as url,
    ):
        yield url


async def test_who_signs_out_at_one_replica_is_out_at_every_one_and_after_a_restart(
    database: str, people: People, keys: Path
) -> None:
    async with replica(database, people=people, keys=keys) as second:
        async with replica(database, people=people, keys=keys) as first, visiting(first) as visitor:
            page = await visitor.sign_in(TOKEN)
            cookies = dict(visitor.client.cookies)
            assert await status_with(cookies, url=second) == 200
            await visitor.submit(page.form("/console/sign-out"))
            assert await status_with(cookies, url=second) == 303
        async with replica(database, people=people, keys=keys) as restarted:
            assert await status_with(cookies, url=restarted) == 303
        async with visiting(second) as visitor:
            assert (await visitor.sign_in(TOKEN)).status == 200, "the token is good for a new session"


async def test_while_the_database_does_not_say_who_signed_out_a_session_is_kept_and_nothing_shown(
    database: str, people: People, keys: Path
) -> None:
    async with replica(database, people=people, keys=keys, deadline=2) as url, visiting(url) as visitor:
        form = (await visitor.sign_in(TOKEN)).form("/console/sign-out")
        owner = await asyncpg.connect(database)
        try:
            await owner.execute("begin; lock table formulary.ended_session in access exclusive mode")
            page, out = await visitor.get("/console/health"), await visitor.submit(form)
            assert (page.status, "The database does not answer" in page.text) == (503, True)
            assert (out.status, "It is not known whether you are signed out" in out.text) == (503, True)
            assert TOKEN_COOKIE in visitor.client.cookies
            assert (await visitor.client.get("/console/static/console.css")).status_code == 200
            await owner.execute("rollback")
        finally:
            await owner.close()
        assert asks_to_sign_in(await visitor.submit(form)), "also if the first sign-out was carried out after all"


async def test_a_sign_out_that_another_tab_came_before_leads_to_the_sign_in_page(url: str) -> None:
    async with visiting(url) as visitor:
        form = (await visitor.sign_in(TOKEN)).form("/console/sign-out")
        cookies = dict(visitor.client.cookies)
        await visitor.submit(form)
        visitor.client.cookies.update(cookies)
        assert asks_to_sign_in(await visitor.submit(form))


async def test_ended_sessions_are_forgotten_once_nobody_would_take_them(parts: CatalogParts) -> None:
    ended = EndedSessions(parts.database)
    await ended.add("over", kept_seconds=-1)
    await ended.add("recent", kept_seconds=60)
    await ended.add("recent", kept_seconds=60)
    assert [await ended.has(each) for each in ("over", "recent", "never")] == [False, True, False]


async def test_a_link_from_another_site_finds_the_session_that_browsers_keep_from_it(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as followed:
        answer = await followed.get("/console/health?a=%22%3E", headers={"Sec-Fetch-Site": "cross-site"})
    page = Page(answer)
    refresh = [given["content"] for tag, given in page.elements if tag == "meta" and given.get("http-equiv")]
    assert (page.status, refresh) == (200, ["0; url=/console/health?a=%22%3E"])


async def test_where_nobody_is_asked_for_credentials_there_is_nothing_to_sign_in(parts: CatalogParts) -> None:
    async with serving(parts) as url, visiting(url) as visitor:
        assert "<h1>Overview</h1>" in (await visitor.get(SIGN_IN)).source
        assert "Sign out" not in (await visitor.get(HOME)).text


FORGED = {
    "another site": {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
    "another port": {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"},
    "another port, from an old browser": {"Origin": "http://127.0.0.1:1"},
    "another name of this server": {"Origin": "http://localhost:1"},
    "a foreign origin": {"Origin": "https://evil.example"},
    "nobody says where": {},
    "a frame without an origin": {"Origin": "null"},
    "an address bar": {"Sec-Fetch-Site": "none"},
}


@pytest.mark.parametrize("case", FORGED)
async def test_a_form_of_another_page_is_refused_though_it_knows_the_token(url: str, case: str) -> None:
    async with visiting(url) as visitor:
        page = await visitor.sign_in(TOKEN)
        refused = await visitor.submit(page.form("/console/sign-out"), headers=FORGED[case])
        assert refused.status == 403
        assert (await visitor.get(HOME)).status == 200


async def test_a_form_needs_the_token_of_its_own_session(url: str) -> None:
    async with visiting(url) as visitor, visiting(url) as other:
        page, foreign = await visitor.sign_in(TOKEN), await other.sign_in("ana")
        stolen = foreign.form("/console/sign-out").fields
        for fields in ({}, {"csrf_token": ""}, {"csrf_token": "é"}, stolen):
            refused = await visitor.submit(Form("/console/sign-out", fields))
            assert (refused.status, "not of your present session" in refused.text) == (403, True)
        assert (await visitor.get(HOME)).status == 200
        assert asks_to_sign_in(await visitor.submit(page.form("/console/sign-out")))


async def test_nobody_is_signed_in_by_a_form_that_another_page_sends(url: str) -> None:
    async with visiting(url) as visitor:
        refused = await visitor.submit(Form(SIGN_IN, {"token": TOKEN}))
        assert refused.status == 403
        assert "formulary_session" not in visitor.client.cookies


async def test_a_session_is_over_after_its_time_and_cannot_be_made_up(
    parts: CatalogParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = EndedSessions(parts.database)
    sessions = Sessions(ended, keys=[b"k" * 32])
    cookie = sessions.begin("t0ken")
    opened = await sessions.open(cookie)
    assert opened is not None
    assert (opened.token, "t0ken" in repr(opened), "t0ken" in cookie) == ("t0ken", False, False)
    rotated = Sessions(ended, keys=[b"n" * 32, b"k" * 32])
    assert await rotated.open(cookie) is not None, "an older key still opens"
    for made_up in (
        "",
        "x",
        cookie[:-4],
        cookie.replace("g", "h", 1),
        Fernet(Fernet.generate_key()).encrypt(b"").decode(),
    ):
        assert await sessions.open(made_up) is None
    monkeypatch.setattr("cryptography.fernet.time.time", lambda: 4102444800.0)
    assert await sessions.open(cookie) is None


async def test_a_token_that_no_cookie_holds_is_refused_in_words(parts: CatalogParts) -> None:
    with pytest.raises(InvalidInput, match="more than a cookie can hold"):
        Sessions(EndedSessions(parts.database)).begin(secrets.token_urlsafe(6000))
