"""Asking for a review while the API server is restarted, broken, or unwilling."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from formulary_catalog.errors import Unavailable
from formulary_operator.access.reviews import Reviewer
from support.kube_clients import answered_by, gone

Answer = Callable[[], web.Response] | None
"""None: the connection breaks off."""


def done() -> web.Response:
    return web.json_response({"status": {"allowed": True}}, status=201)


def forbidden() -> web.Response:
    return web.json_response({"reason": "Forbidden", "message": "no"}, status=403)


class Server:
    """Gives these answers one after the other, the last one ever after."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer() if answer is not None else await gone(request)

    @asynccontextmanager
    async def reviewer(self) -> AsyncIterator[Reviewer]:
        async with answered_by(self) as client:
            yield Reviewer(client, again_seconds=0.001)


async def review(reviewer: Reviewer) -> object:
    return await reviewer.review("/reviews", api_version="v1", kind="TokenReview", spec={})


@pytest.mark.parametrize(
    "trouble",
    [
        None,
        lambda: web.Response(status=503),
        lambda: web.Response(status=429),
        lambda: web.Response(text="<html>a proxy</html>"),
        lambda: web.json_response(["odd"]),
    ],
)
async def test_a_review_is_asked_for_again_until_it_is_answered(
    trouble: Answer,
) -> None:
    server = Server(trouble, trouble, done)
    async with server.reviewer() as reviewer:
        assert await review(reviewer) == {"allowed": True}
    assert server.asked == 3


async def test_a_refused_review_is_not_asked_for_again_and_logged_once() -> None:
    server = Server(forbidden)
    with capture_logs() as lines:
        async with server.reviewer() as reviewer:
            for _ in range(3):
                with pytest.raises(Unavailable, match="system:auth-delegator"):
                    await review(reviewer)
    assert server.asked == 3
    assert [(line["event"], line["count"]) for line in lines] == [("review_refused", 1)]


async def test_a_review_without_a_status_decides_nothing() -> None:
    server = Server(lambda: web.json_response({"kind": "TokenReview"}, status=201))
    async with server.reviewer() as reviewer:
        with pytest.raises(Unavailable, match="without a status"):
            await review(reviewer)
