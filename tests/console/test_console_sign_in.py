"""Who may look: people sign in with a token of theirs, see what their rights show, and sign out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from formulary_catalog.embedding import Embedder
from formulary_catalog.listening.certificate import MountedCertificate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_operator.admission.issuing import issue
from support.browser import Window, window
from support.console import BANK, OF_THE_BANK, OF_THE_SHOP, SHOP, Console, serve_console
from support.console_pages import PAGES, SIGN_IN, WAITING, seen_by, sign_in
from support.databases import copied_database
from support.serving import listening


@pytest.mark.smoke
async def test_a_stranger_is_shown_how_to_sign_in_and_nothing_else(console: Console, browser: Browser) -> None:
    async with window(browser, console.url) as opened:
        for page in PAGES:
            await opened.page.goto(console.url + page.url)
            assert await opened.page.locator("h1").inner_text() == SIGN_IN.heading
            assert "oom" not in (await opened.page.inner_text("body")).lower()


async def test_a_token_that_proves_nothing_is_refused_and_not_repeated(console: Console, browser: Browser) -> None:
    async with window(browser, console.url) as opened:
        await sign_in(opened, "s3cret-but-unknown")
        assert await opened.page.locator("h1").inner_text() == SIGN_IN.heading
        assert await opened.page.get_by_role("alert").is_visible()
        assert "s3cret" not in await opened.page.content()
        assert "s3cret" not in opened.page.url
        assert not opened.seen.violations


@pytest.mark.smoke
async def test_the_cookie_of_a_session_is_closed_to_scripts_and_holds_no_token(
    console: Console, browser: Browser
) -> None:
    async with seen_by("lead", console=console, browser=browser) as opened:
        assert await opened.page.evaluate("document.cookie") == ""
        cookies = await opened.page.context.cookies()
        assert {(each["httpOnly"], each["sameSite"]) for each in cookies} == {(True, "Strict")}
        assert not [each for each in cookies if "lead" in each["value"]]
        assert await opened.page.evaluate("localStorage.length") == 0
        assert "lead" not in await opened.page.evaluate("JSON.stringify(sessionStorage)")


async def test_over_https_the_browser_keeps_cookies_that_nobody_else_can_set(
    postgres: EmbeddedPostgres, embedder: Embedder, keys: Path, past: str, browser: Browser, tmp_path: Path
) -> None:
    pair = issue(["localhost"], now=datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    certificate = MountedCertificate(tmp_path)
    certificate.load()
    async with (
        copied_database(postgres, past) as dsn,
        serve_console(dsn, embedder=embedder, keys=keys, tls=certificate.context) as console,
        seen_by("lead", console=console, browser=browser, ignore_https_errors=True) as opened,
    ):
        page = await opened.open(WAITING.url)
        assert await page.locator("h1").inner_text() == WAITING.heading
        (kept,) = await page.context.cookies()
        assert (kept["name"], kept["secure"], kept["path"]) == ("__Host-formulary_session", True, "/")
        assert kept["domain"] == "127.0.0.1", "without a dot: it is no domain cookie"
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url(f"**{SIGN_IN.url}*")
        assert "__Host-formulary_session" not in {each["name"] for each in await page.context.cookies()}
        assert opened.seen.nothing


async def test_who_signs_out_is_not_let_back_in_by_the_back_button_or_the_old_cookie(
    console: Console, browser: Browser
) -> None:
    async with seen_by("lead", console=console, browser=browser) as opened:
        page = await opened.open(WAITING.url)
        before = await page.context.cookies()
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url(f"**{SIGN_IN.url}*")
        await page.go_back()
        assert await page.locator("h1").inner_text() == SIGN_IN.heading
        await page.context.add_cookies([{"url": console.url, "name": c["name"], "value": c["value"]} for c in before])
        await page.goto(console.url + WAITING.url)
        assert await page.locator("h1").inner_text() == SIGN_IN.heading


@pytest.mark.smoke
async def test_a_token_that_is_revoked_ends_the_session(console: Console, browser: Browser) -> None:
    async with seen_by("guest", console=console, browser=browser) as opened:
        page = await opened.open(WAITING.url)
        assert await page.locator("h1").inner_text() == WAITING.heading
        console.people.revoke("guest")
        await page.goto(console.url + WAITING.url)
        assert await page.locator("h1").inner_text() == SIGN_IN.heading


@pytest.mark.parametrize(
    ("person", "mine", "own", "foreign"),
    [
        ("ana", SHOP, OF_THE_SHOP, OF_THE_BANK),
        pytest.param("ben", BANK, OF_THE_BANK, OF_THE_SHOP, marks=pytest.mark.long),
    ],
)
async def test_two_tenants_see_nothing_of_each_other(
    console: Console, browser: Browser, person: str, mine: str, own: tuple[str, str], foreign: tuple[str, str]
) -> None:
    async with seen_by(person, console=console, browser=browser) as opened:
        everything = ""
        for page in PAGES:
            everything += await (await opened.open(page.url.replace(SHOP, mine))).inner_text("body")
        everything += await (await opened.open(f"/console/catalog?namespace={own[1][:4]}")).inner_text("body")
        assert [word for word in own if word not in everything] == []
        assert [word for word in foreign if word in everything] == []
        their_incident = BANK if mine == SHOP else SHOP
        for path, unknown in (
            (f"/incidents/{their_incident}", "/incidents/rr-unknown"),
            (f"/catalog/{foreign[1][:4]}/{foreign[1]}", f"/catalog/{foreign[1][:4]}/unknown"),
        ):
            assert [await status(opened, path), await status(opened, unknown)] == [404, 404]


async def status(opened: Window, path: str) -> int:
    """The status that a path below the console is answered with."""
    answered = await opened.page.goto(f"{opened.seen.origin}/console{path}")
    assert answered is not None
    return answered.status


async def test_a_missing_right_is_named_beside_buttons_that_do_nothing(console: Console, browser: Browser) -> None:
    async with seen_by("reader", console=console, browser=browser) as opened:
        page = await opened.open(WAITING.url)
        for name in ("Approve", "Reject"):
            buttons = await page.get_by_role("button", name=name).all()
            assert buttons
            assert all([await button.is_disabled() for button in buttons])
        assert "create invocationapprovals.formulary.dev" in await page.inner_text("main")


@asynccontextmanager
async def attacker(form: str) -> AsyncIterator[str]:
    """The port of a page of somebody else's that sends this form off by itself."""

    async def page(_: Request) -> Response:
        return HTMLResponse(f"{form}<script>document.forms[0].submit()</script>")

    async with listening(Starlette(routes=[Route("/", page)])) as url:
        yield url.rpartition(":")[2]


@pytest.mark.smoke
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_page_of_another_origin_approves_nothing_in_somebodys_name(
    console: Console, browser: Browser, host: str
) -> None:
    async with seen_by("lead", console=console, browser=browser) as opened:
        page = await opened.open(WAITING.url)
        waiting = await approvals(console)
        form = page.locator("form").filter(has=page.get_by_role("button", name="Approve")).first
        # The attacker even knows the token of the session: the origin alone refuses it.
        action = await form.get_attribute("action") or WAITING.url
        fields = {"reason": "forged"}
        for field in await form.locator("input[name], button[name]").all():
            fields[str(await field.get_attribute("name"))] = await field.get_attribute("value") or "forged"
        inputs = "".join(f'<input name="{escape(name)}" value="{escape(value)}">' for name, value in fields.items())
        async with attacker(f'<form method="post" action="{console.url}{escape(action)}">{inputs}</form>') as port:
            async with page.expect_response(lambda answer: answer.request.method == "POST") as posted:
                await page.goto(f"http://{host}:{port}/")
            assert (await posted.value).status in (303, 401, 403)
        assert await approvals(console) == waiting


async def approvals(console: Console) -> list[str]:
    """The runs that wait."""
    async with httpx2.AsyncClient(base_url=console.url, headers={"Authorization": "Bearer lead"}) as http:
        answer = (await http.get("/api/v1/approvals")).raise_for_status().json()
    return [run["invocation_id"] for run in answer["approvals"]]
