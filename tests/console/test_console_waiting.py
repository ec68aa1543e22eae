"""Deciding at night: by keyboard alone, without JavaScript, and while the page refreshes itself."""

import asyncio

import httpx2
from playwright.async_api import Browser, Page, expect

from support.browser import Window
from support.console import BANK, SHOP, Console
from support.console_pages import WAITING, seen_by

_FOCUS = """() => {
    const focused = document.activeElement, style = getComputedStyle(focused);
    const marked = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
    return [focused === document.body ? '' : focused.outerHTML.slice(0, 100), marked];
}"""


async def state_of(console: Console, run: str) -> str:
    """Where a run stands."""
    async with httpx2.AsyncClient(base_url=console.url, headers={"Authorization": "Bearer lead"}) as http:
        return str((await http.get(f"/api/v1/invocations/{run}")).raise_for_status().json()["state"])


async def tab_to(page: Page, selector: str, *, limit: int = 60) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(limit):
        if await page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is not reached within {limit} stops")
