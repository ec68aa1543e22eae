"""The route of the REST side of a server: what happens to every call besides what is asked (DESIGN section 8).

All routers of `edges.rest` are made of it. A call has a deadline and leaves a line in the log, every failure leaves as
an error body, and answers to GET carry a tag.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from fastapi import Request, Response
from fastapi.routing import APIRoute

from formulary_catalog.edges.calls.failures import failure_of, within_deadline
from formulary_catalog.edges.rest.calls import refusal, tagged, unless_json

_log = structlog.get_logger(__name__)


class Guarded(APIRoute):
    """A route whose every failure leaves as the error body of this API, and whose every call is logged."""

    seconds: float | None = None
    """Deadline of a call; that of any call without it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            if (not_json := unless_json(request)) is not None:
                return not_json
            try:
                response = await within_deadline(handler(request), seconds=self.seconds)
            except Exception as error:
                failure = failure_of(error)
                _log.info("rest_call", operation=self.operation_id, outcome=failure.outcome)
                return refusal(request, failure)
            _log.info("rest_call", operation=self.operation_id, outcome="ok")
            return tagged(request, response) if request.method == "GET" else response

        return guarded
