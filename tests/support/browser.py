"""A real browser: Debian's chromium, without a window, that reaches loopback alone."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, async_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_REPORT = "addEventListener('securitypolicyviolation', e => __violated(`${e.violatedDirective}: ${e.blockedURI}`))"
_PATIENCE = 30_000  # milliseconds
DESKTOP = (1280, 800)
PHONE = (390, 844)
WIDE = (1440, 900)
ZOOMED = (720, 450)
"""A wide window at 200 %: it has half as many pixels of CSS."""


def chromium() -> str:
    """The program: FORMULARY_TEST_CHROMIUM, or what is installed."""
    found = os.environ.get("FORMULARY_TEST_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    assert found, "there is no chromium; run `bash scripts/system.sh chromium`, or set FORMULARY_TEST_CHROMIUM"
    return found


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """A browser; its sandbox does not work for root."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium(),
            chromium_sandbox=os.geteuid() != 0,
            args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"],
        )
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Seen:
    """What a window did that no page of ours may do. Playwright adds attributes of its own to what it calls."""

    origin: str
    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    @property
    def nothing(self) -> bool:
        return not (self.violations or self.errors or self.dialogs or self.foreign)

    def forget(self) -> None:
        """Begin again, for another page in the same window."""
        for noted in (self.violations, self.errors, self.dialogs, self.foreign):
            noted.clear()

    def watch(self, context: BrowserContext) -> None:
        """Note what happens in the windows of the context from now on."""
        context.on("console", self._console)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("dialog", self._dialog)
        context.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} {message.location['url']}")

    async def _dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        await dialog.dismiss()

    def _request(self, request: Request) -> None:
        to = urlsplit(request.url)
        if to.scheme != "data" and f"{to.scheme}://{to.netloc}" != self.origin:
            self.foreign.append(request.url)


@dataclass(frozen=True, slots=True)
class Window:
    """A window of a person's own, and what was seen in it."""

    page: Page
    seen: Seen

    async def open(self, path: str) -> Page:
        """Go to a path of the server."""
        answered = await self.page.goto(self.seen.origin + path)
        assert answered is not None
        assert answered.status < 400, f"{path}: {answered.status}\n{await answered.text()}"
        return self.page


@asynccontextmanager
async def window(
    browser: Browser, url: str, *, size: tuple[int, int] = DESKTOP, scripts: bool = True, **options: Any
) -> AsyncIterator[Window]:
    """A window without a past; `options` are those of a browser context."""
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height}, java_script_enabled=scripts, **options
    )
    context.set_default_timeout(_PATIENCE)
    seen = Seen(url)
    seen.watch(context)
    await context.expose_binding("__violated", lambda _, violation: seen.violations.append(violation))
    await context.add_init_script(_REPORT)
    try:
        yield Window(await context.new_page(), seen)
    finally:
        await context.close()
