"""Runs behind a running server, which alone may ask for them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from formulary_catalog.cli.options import settings_of
from formulary_catalog.cli.remote import Remote, connected, incident_headers
from formulary_catalog.cli.targets import DEFAULT_URL
from formulary_catalog.domain.answers import InvocationAnswer

_SECONDS = 60.0  # longer than the server's own deadline of a call that waits
_WAIT_MS = 25_000
_OVER = frozenset({"completed", "failed", "timed_out", "cancelled", "halted"})
_T = TypeVar("_T")


class Runs:
    """Asks for runs, follows and approves them. Errors are `FormularyError`s."""

    def __init__(self, server: Remote) -> None:
        self._server = server

    async def invoke(
        self,
        workflow_id: str,
        *,
        values: Mapping[str, Any],
        version: str,
        options: Mapping[str, Any],
        remediation_id: str,
    ) -> InvocationAnswer:
        """Ask for a run; `options` as JSON-RPC has them."""
        params = {"workflow_id": workflow_id, "version": version, "input": dict(values), "options": dict(options)}
        return await self._server.answer(
            InvocationAnswer,
            "POST",
            "/invoke",
            in_result=True,
            json={"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", "params": params},
            headers=incident_headers(remediation_id),
        )

    async def status(self, invocation_id: str) -> InvocationAnswer:
        """Where a run stands."""
        return await self._server.answer(InvocationAnswer, "GET", f"/invocations/{invocation_id}")

    async def until_over(self, invocation_id: str, *, tell: Callable[[InvocationAnswer], None]) -> InvocationAnswer:
        """The run when it is over; `tell` is given each state before."""
        answer = await self.status(invocation_id)
        while not is_over(answer):
            tell(answer)
            waiting = {"wait_ms": _WAIT_MS, "after_revision": answer.revision}
            path = f"/invocations/{invocation_id}"
            answer = await self._server.answer(InvocationAnswer, "GET", path, params=waiting)
        return answer

    async def approve(self, invocation_id: str, *, decision: str, reason: str, digest: str = "") -> InvocationAnswer:
        """Say yes or no to a run that waits for it; with a `digest` to that content alone."""
        body = {"decision": decision, "reason": reason} | ({"digest": digest} if digest else {})
        return await self._server.answer(InvocationAnswer, "POST", f"/invocations/{invocation_id}/approval", json=body)


def is_over(answer: InvocationAnswer) -> bool:
    """Whether the run changes no more."""
    return answer.state in _OVER


def ask_for_runs(url: str | None, question: Callable[[Runs], Awaitable[_T]]) -> _T:
    """The answer of the server at this address, or the default one.

    Raises:
        FormularyError: the server's own, or Unavailable if it cannot be reached.
    """

    async def asked() -> _T:
        async with connected(url or DEFAULT_URL, token=settings_of().token, seconds=_SECONDS) as server:
            return await question(Runs(server))

    return asyncio.run(asked())
