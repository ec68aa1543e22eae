"""The pages of the console, and how a person looks at them."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Browser, Page

from support.browser import DESKTOP, PHONE, WIDE, ZOOMED, Window, window
from support.console import QUERY, SHARED, SHOP, Console

_EVERYTHING_OPEN = "document.querySelectorAll('details').forEach(each => each.open = true)"
_FINDINGS = """async () => (await axe.run({resultTypes: ['violations']})).violations
    .flatMap(each => each.nodes.map(node => `${each.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`))"""
_INJECTED = """() => [...document.querySelectorAll('*')].filter(element =>
    element.id === 'hacked'
    || element.matches('iframe, object, embed, base, meta[http-equiv=refresh], foreignObject, style')
    || (element.matches('script') && (!element.src.startsWith(location.origin) || element.textContent))
    || [...element.attributes].some(({name, value}) =>
        /^(data-)?(on|hx-on|hx-vals$)/i.test(name)
        || (/^(data-)?hx-/i.test(name) && /^[a-z]*:?\\/\\//i.test(value))
        || (/(href|src|action|data)$/i.test(name) && /^\\s*(javascript|vbscript|data):/i.test(value))))
    .map(element => element.outerHTML.slice(0, 200))
    .concat(window.__hacked === undefined ? [] : ['__hacked is set'])"""


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A page: the name of its picture, its path below `/console`, its main heading."""

    name: str
    path: str
    heading: str
    is_in_navigation: bool = True
    """Whether it is reached from every page."""

    @property
    def url(self) -> str:
        """Its path on the server."""
        return f"/console{self.path}"


SIGN_IN = ConsolePage("sign-in", "/sign-in", "Sign in")
TITLE = "Raise the memory limit of an OOM-killed workload"
WAITING = ConsolePage("waiting", "/waiting", "Waiting")
OVERVIEW = ConsolePage("overview", "/overview", "Overview")
PAGES = (
    OVERVIEW,
    WAITING,
    ConsolePage("incidents", "/incidents", "Incidents"),
    ConsolePage("incident", f"/incidents/{SHOP}", SHOP, is_in_navigation=False),
    ConsolePage("open-incidents", "/incidents?of=open", "Open incidents", is_in_navigation=False),
    ConsolePage("search", f"/search?query={quote(QUERY)}&incident={SHOP}", "Try a search"),
    ConsolePage(
        "why-not",
        f"/search?query={quote(QUERY)}&incident={SHOP}&workflow=dns-coredns-restart-scale",
        "Try a search",
        is_in_navigation=False,
    ),
    ConsolePage("catalog", "/catalog", "Catalog"),
    ConsolePage("refused", "/catalog?status=Invalid", "Catalog", is_in_navigation=False),
    ConsolePage("workflow", f"/catalog/{SHARED}/oom-raise-memory-limit", TITLE, is_in_navigation=False),
    ConsolePage("coverage", "/coverage", "Coverage"),
    ConsolePage("stale", "/coverage/stale", "Stale workflows", is_in_navigation=False),
    ConsolePage("duplicates", "/coverage/duplicates", "Duplicates", is_in_navigation=False),
    ConsolePage("rules", "/rules", "Rules"),
    ConsolePage("halts", "/rules/halts", "Halts", is_in_navigation=False),
    ConsolePage("health", "/health", "Health"),
)
"""All that need a person, in the order of the navigation."""
_LOOKS = {
    "light-desktop": ("light", DESKTOP),
    "dark-phone": ("dark", PHONE),
    "dark-desktop": ("dark", DESKTOP),
    "light-phone": ("light", PHONE),
    "light-wide": ("light", WIDE),
    "dark-wide": ("dark", WIDE),
    "light-zoomed": ("light", ZOOMED),
    "dark-zoomed": ("dark", ZOOMED),
}
_LONG = [pytest.mark.long]
each_look = pytest.mark.parametrize(
    ("scheme", "size"),
    [
        pytest.param(*look, id=name, marks=_LONG if number > 1 else [])
        for number, (name, look) in enumerate(_LOOKS.items())
    ],
)
"""Both schemes and all sizes; most of their combinations are long."""


def each_in_a_look(names: str, cases: Iterable[tuple[object, ...]]) -> pytest.MarkDecorator:
    """The cases in turn bright and wide, or dark and narrow; each in every other look is long."""
    return pytest.mark.parametrize(
        f"{names}, scheme, size",
        [
            pytest.param(*case, *look, id=f"{number}-{name}", marks=[] if place == number % 2 else _LONG)
            for number, case in enumerate(cases)
            for place, (name, look) in enumerate(_LOOKS.items())
        ],
    )


@asynccontextmanager
async def seen_by(
    token: str, *, console: Console, browser: Browser, size: tuple[int, int] = DESKTOP, **options: Any
) -> AsyncIterator[Window]:
    """A window of the person with this token, who has signed in."""
    async with window(browser, console.url, size=size, **options) as opened:
        await sign_in(opened, token)
        yield opened


class Windows:
    """Windows of people who have signed in, one for each person and look: for tests that read a page after another."""

    def __init__(self, console: Console, browser: Browser, stack: AsyncExitStack) -> None:
        self._console, self._browser, self._stack = console, browser, stack
        self._opened: dict[object, Window] = {}

    async def of(self, token: str, *, size: tuple[int, int] = DESKTOP, **options: Any) -> Window:
        """The window of the person with this token, with nothing seen in it."""
        look = (token, size, *sorted(options.items()))
        if look not in self._opened:
            self._opened[look] = await self._stack.enter_async_context(
                seen_by(token, console=self._console, browser=self._browser, size=size, **options)
            )
        self._opened[look].seen.forget()
        return self._opened[look]


async def sign_in(opened: Window, token: str) -> None:
    """Sign in as a person does."""
    page = await opened.open(SIGN_IN.url)
    await page.get_by_label("Token").fill(token)
    async with page.expect_event("load"):
        await page.get_by_role("button", name="Sign in").click()


async def findings(page: Page) -> list[str]:
    """What axe takes for a barrier, however small, with all details open."""
    await page.evaluate(_EVERYTHING_OPEN)
    await page.evaluate(AXE_SCRIPT)
    found: list[str] = await page.evaluate(_FINDINGS)
    return found


async def overflow(page: Page) -> int:
    """How many pixels the page is wider than its window, with all details open."""
    await page.evaluate(_EVERYTHING_OPEN)
    return int(await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


async def outline(page: Page) -> list[str]:
    """The headings of a page, its navigation, and the columns of its tables."""
    return await page.locator("h1, h2, h3, nav a, th").all_text_contents()


async def injected(page: Page) -> list[str]:
    """Elements that no template of ours has."""
    found: list[str] = await page.evaluate(_INJECTED)
    return found
