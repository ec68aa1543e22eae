"""Deciding at night: by keyboard alone, without JavaScript, and while the page refreshes itself."""

import asyncio
from typing import Any

import httpx2
import pytest
from playwright.async_api import Browser, Locator, Page, expect

from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.executors import ExecutorWriter
from support.browser import PHONE
from support.console import SHOP, Console, render
from support.console_pages import WAITING, seen_by

REFRESHES_AFTER = 10_500
"""Milliseconds, more than pages wait before they ask for what is new."""
_FOCUS = """() => {
    const focused = document.activeElement, style = getComputedStyle(focused);
    const marked = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
    return [focused === document.body ? '' : focused.outerHTML.slice(0, 100), marked];
}"""


async def ends(console: Console, run: str) -> str:
    """How a run ends."""
    headers = {"Authorization": "Bearer lead"}
    async with httpx2.AsyncClient(base_url=console.url, headers=headers, timeout=50) as http, asyncio.timeout(60):
        while True:
            answer = (await http.get(f"/api/v1/invocations/{run}", params={"wait_ms": 1000})).raise_for_status().json()
            if answer["state"] in ("completed", "failed"):
                return str(answer["state"])


async def tab_to(page: Page, selector: str, *, limit: int = 60) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(limit):
        if await page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is not reached within {limit} stops")


def card(page: Page, run: str) -> Locator:
    """The part of the page that is about a run."""
    return page.locator(f"article[id='{run}']")


@pytest.mark.smoke
async def test_a_person_approves_by_keyboard_alone(console: Console, browser: Browser) -> None:
    run = await console.agent.run(SHOP)
    await render(console.dsn, run)
    async with seen_by("ana", console=console, browser=browser) as opened:
        page = await opened.open(WAITING.url)
        await tab_to(page, f"#reason-{run}")
        await page.keyboard.type("Peak usage checked")
        await tab_to(page, f"[id='{run}'] button[value=Approve]")
        await page.keyboard.press("Enter")
        await expect(page.locator("#decided")).to_contain_text(f"Approval of {run} is recorded")
        assert opened.seen.nothing, opened.seen
    assert await ends(console, run) == "completed"


async def test_a_person_on_a_phone_sees_the_buttons_beside_what_they_decide_on(
    console: Console, browser: Browser
) -> None:
    run = await console.agent.run(SHOP)
    async with seen_by("ana", console=console, browser=browser, size=PHONE) as opened:
        page = await opened.open(f"/console/waiting/{run}")
        for shown in (
            card(page, run).get_by_role("heading").first,
            card(page, run).get_by_role("button", name="Reject"),
        ):
            await expect(shown).to_be_in_viewport(ratio=1)


async def test_a_decision_leaves_what_was_typed_for_another_run(console: Console, browser: Browser) -> None:
    run, other = await console.agent.run(SHOP), await console.agent.run(SHOP)
    async with seen_by("ana", console=console, browser=browser) as opened:
        await opened.page.clock.install()
        page = await opened.open(WAITING.url)
        await card(page, other).get_by_label("Reason").fill("half a rea")
        await card(page, run).get_by_label("Reason").fill("Not before the sale ends")
        await card(page, run).get_by_role("button", name="Reject").click()
        await expect(page.locator("#decided")).to_contain_text(f"Rejection of {run} is recorded")
        await page.clock.fast_forward(REFRESHES_AFTER)
        await expect(card(page, run)).to_have_count(0, timeout=60_000)
        assert await card(page, other).get_by_label("Reason").input_value() == "half a rea"
        assert opened.seen.nothing, opened.seen


@pytest.mark.smoke
async def test_a_decision_that_fails_says_why_and_leaves_what_was_typed(console: Console, browser: Browser) -> None:
    run, other = await console.agent.run(SHOP), await console.agent.run(SHOP)
    async with seen_by("ana", console=console, browser=browser) as opened:
        page = await opened.open(WAITING.url)
        for each in (run, other):
            await card(page, each).get_by_label("Reason").fill(f"Peak usage of {each}")
        await card(page, run).locator("[name=csrf_token]").evaluate("each => each.value = 'of another session'")
        await card(page, run).get_by_role("button", name="Reject").click()
        await expect(card(page, run).get_by_role("alert")).to_contain_text("nothing was done")
        for each in (run, other):
            assert await card(page, each).get_by_label("Reason").input_value() == f"Peak usage of {each}"
        assert opened.seen.violations == []


async def test_a_double_click_decides_once_and_says_so(console: Console, browser: Browser) -> None:
    run = await console.agent.run(SHOP)
    async with seen_by("ana", console=console, browser=browser) as opened:
        page = await opened.open(WAITING.url)
        await card(page, run).get_by_label("Reason").fill("Not before the sale ends")
        await card(page, run).get_by_role("button", name="Reject").dblclick()
        await expect(page.locator("#decided")).to_contain_text(f"Rejection of {run} is recorded")
        await page.wait_for_load_state("networkidle")
        assert await page.get_by_role("alert").count() == 0
        assert opened.seen.nothing, opened.seen


async def test_a_decision_without_an_answer_says_so(console: Console, browser: Browser) -> None:
    run = await console.agent.run(SHOP)
    async with seen_by("ana", console=console, browser=browser) as opened:
        page = await opened.open(WAITING.url)
        await card(page, run).get_by_label("Reason").fill("Not before the sale ends")
        await page.route(f"**/waiting/{run}", lambda route: route.abort())
        await card(page, run).get_by_role("button", name="Reject").click()
        await expect(card(page, run).get_by_role("alert")).to_contain_text("it is not known whether this was recorded")
        assert await card(page, run).get_by_label("Reason").input_value() == "Not before the sale ends"
        assert opened.seen.violations == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_keyboard_always_shows_where_it_is(console: Console, browser: Browser, scheme: Any) -> None:
    async with seen_by("lead", console=console, browser=browser, color_scheme=scheme) as opened:
        page = await opened.open(WAITING.url)
        stops: list[str] = []
        for _ in range(40):
            await page.keyboard.press("Tab")
            where, is_marked = await page.evaluate(_FOCUS)
            if not where:
                break
            assert is_marked, f"the focus is not to be seen on {where}"
            stops.append(where)
        assert "Skip to the content" in stops[0]
        assert any("Sign out" in stop for stop in stops)


async def test_the_first_stop_leads_past_the_navigation(console: Console, browser: Browser) -> None:
    async with seen_by("lead", console=console, browser=browser) as opened:
        page = await opened.open(WAITING.url)
        await page.keyboard.press("Tab")
        assert await page.get_by_role("link", name="Skip to the content").is_visible()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.closest('main') !== null")


async def test_a_person_rejects_without_javascript(console: Console, browser: Browser) -> None:
    run = await console.agent.run(SHOP)
    async with seen_by("ana", console=console, browser=browser, scripts=False) as opened:
        page = await opened.open(WAITING.url)
        await card(page, run).get_by_label("Reason").fill("Not before the sale ends")
        async with page.expect_event("load"):
            await card(page, run).get_by_role("button", name="Reject").click()
        assert run in await page.locator("#decided").inner_text()
    assert await ends(console, run) == "failed"


async def test_a_page_that_refreshes_itself_keeps_the_focus_and_what_was_typed(
    console: Console, browser: Browser
) -> None:
    run = await console.agent.run(SHOP)
    async with seen_by("ana", console=console, browser=browser) as opened:
        await opened.page.clock.install()
        page = await opened.open(WAITING.url)
        field = card(page, run).get_by_label("Reason")
        await field.focus()
        await page.keyboard.type("half a rea")
        other = await console.agent.run(SHOP)
        await page.clock.fast_forward(REFRESHES_AFTER)
        await expect(card(page, other)).to_be_visible(timeout=60_000)
        await render(console.dsn, run)
        await page.clock.fast_forward(REFRESHES_AFTER)
        await expect(card(page, run).locator("code").first).to_be_attached(timeout=60_000)
        await page.keyboard.type("son")
        assert await field.input_value() == "half a reason"
        assert await field.evaluate("each => document.activeElement === each")
        assert opened.seen.nothing, opened.seen


async def test_health_keeps_the_focus_while_it_changes_and_shows_how_old_it_is(
    console: Console, browser: Browser
) -> None:
    async with seen_by("ana", console=console, browser=browser) as opened:
        await opened.page.clock.install()
        page = await opened.open("/console/health")
        table = page.get_by_role("region", name="Table of parts")
        await table.focus()
        async with Database.opened(console.dsn, role=Role.WRITER, size=1) as database:
            await ExecutorWriter(database).announce(name="second", engines=["argo", "tekton"])
        await page.clock.fast_forward(REFRESHES_AFTER)
        await expect(table).to_contain_text("argo", timeout=60_000)
        assert await table.evaluate("each => document.activeElement === each")
        at = await page.locator("#as-of").inner_text()
        await page.context.set_offline(True)
        async with page.expect_event("requestfailed"):
            await page.clock.fast_forward(REFRESHES_AFTER)
        await expect(page.locator("#as-of")).to_have_text(at)
        await page.context.set_offline(False)
        await page.clock.fast_forward(REFRESHES_AFTER)
        await expect(page.locator("#as-of")).not_to_have_text(at, timeout=60_000)
