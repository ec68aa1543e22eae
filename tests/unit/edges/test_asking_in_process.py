"""What a command on a database asks: the endpoints of a server, without what only a server needs."""

from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from formulary_catalog.edges.cli.http_client import Remote
from formulary_catalog.edges.rest.endpoints import in_process
from formulary_catalog.errors import (
    FormularyError,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotSetUp,
    NoWorkflowName,
    RateLimited,
    Unavailable,
    UnknownWorkflow,
)
from formulary_catalog.operations.analytics import SCHEMA
from formulary_catalog.operations.workflows import FIND


class Browsing:
    """Fails as it is asked to, and keeps who asked."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure
        self.asker: dict[str, Any] = {}

    async def find(self, *_: Any, **asker: Any) -> None:
        self.asker = asker
        raise self._failure


async def ask(browsing: Browsing, **about: str) -> None:
    services: Any = SimpleNamespace(browsing=browsing, parts=SimpleNamespace(trail=None))
    transport = httpx2.ASGITransport(in_process(services))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        await Remote(client).ask(FIND, {"name": "oom"}, **about)


async def test_the_local_caller_asks_as_a_person_on_behalf_of_the_incident() -> None:
    browsing = Browsing(UnknownWorkflow("oom", nearest=["oom-fix"]))
    with pytest.raises(UnknownWorkflow) as unknown:
        await ask(browsing, remediation_id="rr-1")

    assert unknown.value.nearest == ("oom-fix",)
    asker = browsing.asker
    assert (asker["caller"].name, asker["browsing"], asker["context"].ids) == ("local", True, ("rr-1",))


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Unavailable("the database does not answer"), Unavailable),
        (NotSetUp("name a database"), Unavailable),
        (NoWorkflowName("no name has a space", workflow_id="a b"), NoWorkflowName),
        (NotFound("nobody knows it", reference="tr_1"), NotFound),
        (NotAllowed("may not"), NotAllowed),
        (InvalidInput("is broken", field="name"), InvalidInput),
    ],
)
async def test_an_error_reads_as_it_was_raised(failure: FormularyError, kind: type[FormularyError]) -> None:
    with pytest.raises(kind, match=str(failure)) as raised:
        await ask(Browsing(failure))
    assert raised.value.exit_code == failure.exit_code


async def test_a_caller_that_asked_too_often_learns_when_to_come_back() -> None:
    with pytest.raises(RateLimited) as limited:
        await ask(Browsing(RateLimited("too often", retry_after=7)))
    assert limited.value.retry_after == 7


async def test_a_name_with_a_slash_where_none_has_one_is_not_found() -> None:
    services: Any = SimpleNamespace(parts=SimpleNamespace(trail=None))
    transport = httpx2.ASGITransport(in_process(services))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for name in ("a/b", "searches/"):
            with pytest.raises(NotFound, match="a name has no slash here"):
                await Remote(client).ask(SCHEMA, {"table": name})


async def test_what_is_unexpected_is_neither_hidden_nor_logged(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        await ask(Browsing(ZeroDivisionError()))
    assert capsys.readouterr() == ("", "")
