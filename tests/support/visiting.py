"""A person at the console with a browser that has no scripts: pages, forms and cookies over real HTTP."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2

from support.pages import Element, page_of

OWN_FORM = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
"""What a browser says of a form on a page without a referrer."""


@dataclass
class Form:
    """A form as it was shown. `buttons` are those that can be pressed, by their value."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[str] = field(default_factory=list)


class Page:
    """An answer as it is seen. In `text`, pieces of text that tags part are parted by a space."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status, self.headers, self.source = response.status_code, response.headers, response.text
        page = page_of(response.text)
        self.forms = [_form(each) for each in page.all("form")]
        self.elements = [(each.tag, each.attributes) for each in page.inside]
        self.text = " ".join(" ".join(page.texts).split())

    def form(self, action: str) -> Form:
        """The form that goes to this path."""
        return next(form for form in self.forms if form.action == action)


@dataclass(frozen=True)
class Visitor:
    """Somebody who looks; the client keeps the cookies."""

    client: httpx2.AsyncClient

    async def get(self, path: str, **headers: str) -> Page:
        return Page(await self.client.get(path, headers=_named(headers)))

    async def submit(
        self, form: Form, *, button: str = "", headers: Mapping[str, str] = OWN_FORM, **filled: str
    ) -> Page:
        """Press a button of a form."""
        pressed = {"decision": button} if button else {}
        return Page(
            await self.client.post(form.action, data={**form.fields, **filled, **pressed}, headers=dict(headers))
        )

    async def send(self, method: str, path: str) -> Page:
        """A request of any kind."""
        return Page(await self.client.request(method, path))

    async def sign_in(self, token: str, *, path: str = "/console/waiting") -> Page:
        """Go to a page that needs somebody, and sign in there; the page that comes of it."""
        asked = await self.get(path)
        return await self.submit(asked.form("/console/sign-in"), token=token)


@asynccontextmanager
async def visiting(url: str, *, bearer: str = "") -> AsyncIterator[Visitor]:
    """Somebody at a server; with `bearer` behind a proxy that passes the token."""
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with httpx2.AsyncClient(base_url=url, headers=headers, follow_redirects=True, timeout=30) as client:
        yield Visitor(client)


def _form(form: Element) -> Form:
    usable = form.all(which=lambda each: "disabled" not in each.attributes)
    fields = [each.attributes for each in usable if each.tag == "input" and "name" in each.attributes]
    return Form(
        action=form.attributes["action"],
        fields={each["name"]: each.get("value", "") for each in fields},
        buttons=[each.attributes.get("value", "") for each in usable if each.tag == "button"],
    )


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
