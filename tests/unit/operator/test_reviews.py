"""Asking for a review while the API server is restarted, broken, or unwilling."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest
from structlog.testing import capture_logs

from formulary_catalog.errors import Unavailable
from formulary_operator.access import reviews
from formulary_operator.access.reviews import Reviewer
from formulary_operator.kube.client import KubeClient

DONE = httpx2.Response(201, json={"status": {"allowed": True}})
FORBIDDEN = httpx2.Response(403, json={"reason": "Forbidden", "message": "no"})
Answer = Callable[[], httpx2.Response]


def gone() -> httpx2.Response:
    raise httpx2.ConnectError("nobody listens")


class Server:
    """Gives these answers one after the other, the last one ever after."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked = 0

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked += 1
        return self._answers.pop(0)() if len(self._answers) > 1 else self._answers[0]()

    @asynccontextmanager
    async def reviewer(self) -> AsyncIterator[Reviewer]:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(self), base_url="https://api.invalid") as http:
            yield Reviewer(KubeClient(http))


async def review(reviewer: Reviewer) -> object:
    return await reviewer.review("/reviews", api_version="v1", kind="TokenReview", spec={})


@pytest.mark.parametrize(
    "trouble",
    [
        gone,
        lambda: httpx2.Response(503),
        lambda: httpx2.Response(429),
        lambda: httpx2.Response(200, text="<html>a proxy</html>"),
        lambda: httpx2.Response(200, json=["odd"]),
    ],
)
async def test_a_review_is_asked_for_again_until_it_is_answered(
    trouble: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews, "_AGAIN_SECONDS", 0.001)
    server = Server(trouble, trouble, lambda: DONE)
    async with server.reviewer() as reviewer:
        assert await review(reviewer) == {"allowed": True}
    assert server.asked == 3


async def test_a_refused_review_is_not_asked_for_again_and_logged_once() -> None:
    server = Server(lambda: FORBIDDEN)
    with capture_logs() as lines:
        async with server.reviewer() as reviewer:
            for _ in range(3):
                with pytest.raises(Unavailable, match="system:auth-delegator"):
                    await review(reviewer)
    assert server.asked == 3
    assert [(line["event"], line["count"]) for line in lines] == [("review_refused", 1)]


async def test_a_review_without_a_status_decides_nothing() -> None:
    server = Server(lambda: httpx2.Response(201, json={"kind": "TokenReview"}))
    async with server.reviewer() as reviewer:
        with pytest.raises(Unavailable, match="without a status"):
            await review(reviewer)
