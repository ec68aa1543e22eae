"""Each page, as different people meet it: bright or dark, wide or narrow, with and without JavaScript.

With UPDATE_SCREENSHOTS=1 the pictures of the documentation are taken on the way.
"""

import os
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, FloatRect

from support.browser import DESKTOP, PHONE, Window, window
from support.console import Console
from support.console_pages import (
    PAGES,
    SIGN_IN,
    WAITING,
    ConsolePage,
    Windows,
    each_in_a_look,
    each_look,
    findings,
    outline,
    overflow,
)

PICTURES = Path(__file__).parents[2] / "docs" / "images" / "console"
TAKES_PICTURES = os.environ.get("UPDATE_SCREENSHOTS") == "1"
PICTURED = {
    *((page.name, "light", DESKTOP) for page in (SIGN_IN, *PAGES)),
    ("incident", "dark", DESKTOP),
    ("waiting", "light", PHONE),
}
Scheme = Literal["light", "dark"]
_TALLEST = 1600
each_page = pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.long] if number % 2 else [])
        for number, page in enumerate(PAGES)
    ],
)


async def is_good(opened: Window, page: ConsolePage, *, scheme: Scheme, size: tuple[int, int]) -> None:
    """Look at one page that is open."""
    shown = opened.page
    assert await shown.locator("h1").all_inner_texts() == [page.heading]
    if TAKES_PICTURES and (page.name, scheme, size) in PICTURED:
        suffix = ("-dark" if scheme == "dark" else "") + ("-phone" if size == PHONE else "")
        tall = min(await shown.evaluate("document.documentElement.scrollHeight"), _TALLEST)
        clip = FloatRect(x=0, y=0, width=size[0], height=size[1] if size == PHONE else max(size[1], tall))
        await shown.screenshot(path=PICTURES / f"{page.name}{suffix}.png", full_page=True, clip=clip)
    assert await overflow(shown) <= 0, "the page scrolls sideways"
    assert await findings(shown) == []
    assert opened.seen.nothing, opened.seen


@each_in_a_look("page", [(page,) for page in PAGES])
async def test_a_page_has_no_barrier_and_breaks_no_rule_of_its_own(
    windows: Windows, page: ConsolePage, scheme: Scheme, size: tuple[int, int]
) -> None:
    opened = await windows.of("lead", size=size, color_scheme=scheme)
    await opened.open(page.url)
    await is_good(opened, page, scheme=scheme, size=size)


@each_look
@pytest.mark.smoke
async def test_who_is_not_known_gets_a_sign_in_page_without_barriers(
    console: Console, browser: Browser, scheme: Scheme, size: tuple[int, int]
) -> None:
    async with window(browser, console.url, size=size, color_scheme=scheme) as opened:
        await opened.open(SIGN_IN.url)
        await is_good(opened, SIGN_IN, scheme=scheme, size=size)


async def outline_of_whole(opened: Window, page: ConsolePage) -> list[str]:
    """A page of coverage is as long as seconds of searching make it, and the next one longer: these are remembered."""
    shown: list[str] = []
    while shown != (shown := await outline(await opened.open(page.url))):
        pass
    return shown


@each_page
async def test_a_page_says_the_same_without_javascript(windows: Windows, page: ConsolePage) -> None:
    opened, without = await windows.of("lead"), await windows.of("lead", scripts=False)
    whole = await outline_of_whole(opened, page)
    assert await outline_of_whole(without, page) == whole
    assert await without.page.locator("h1").inner_text() == page.heading


@pytest.mark.smoke
async def test_the_navigation_reaches_every_page_without_javascript(windows: Windows) -> None:
    start = await (await windows.of("lead", scripts=False)).open(WAITING.url)
    names = await start.get_by_role("navigation").first.get_by_role("link").all_inner_texts()
    reached = []
    for name in names:
        await start.get_by_role("navigation").first.get_by_role("link", name=name, exact=True).click()
        reached.append(await start.locator("h1").inner_text())
    assert [page.heading for page in PAGES if page.is_in_navigation] == reached
