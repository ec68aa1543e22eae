"""What commands ask, over HTTP alone: of a server by its address, or of a database in this process (`targets`).

One client for both, whose errors are those that were raised at the other end, and the runs of a server on top of it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2
from pydantic import ValidationError

from formulary_catalog.domain.answers.catalog import Answer, InvocationAnswer, SearchAnswer
from formulary_catalog.domain.text import without_userinfo
from formulary_catalog.edges.cli.options import DEFAULT_URL, settings_of
from formulary_catalog.edges.cli.sources import note_source
from formulary_catalog.errors import (
    FormularyError,
    InvalidInput,
    NoExecutor,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NoWorkflowName,
    RateLimited,
    RunFailed,
    RunRefused,
    RunTimedOut,
    Unavailable,
    UnknownDocument,
    UnknownWorkflow,
)
from formulary_catalog.runtime.listening import is_loopback

if TYPE_CHECKING:  # as in `run_pages`
    from formulary_catalog.domain.reading import WaitingRun, WaitingRunList
    from formulary_catalog.operations.operation import A, Operation, R

_A = TypeVar("_A", bound=Answer)
_RUN_SECONDS = 60.0  # longer than the server's own deadline of a call that waits
_LISTED = 100
_WAITING = 200
"""As many entries and runs as the server lists at once."""
_WAIT_MS = 25_000
_OVER = frozenset({"completed", "failed", "timed_out", "cancelled", "halted"})
_T = TypeVar("_T")


class Remote:
    """A server, or the application of a database in this process."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    @property
    def url(self) -> str:
        """Its address, as messages name it."""
        return without_userinfo(str(self._client.base_url)).rstrip("/")

    async def ask(self, operation: "Operation[A, R]", given: Mapping[str, Any], *, remediation_id: str = "") -> "R":
        """The answer to an operation on behalf of an incident.

        Raises:
            InvalidInput: an argument breaks a rule.
            FormularyError: as `answer`.
        """
        route = operation.route
        assert route is not None, "commands ask what has a route"
        path, others = route.address(checked_arguments(operation, given))
        return await self.answer(
            operation.answer,
            route.method,
            path,
            headers=incident_headers(remediation_id),
            json=others if route.has_body else None,
            params=None if route.has_body else others,
        )

    async def search(self, given: Mapping[str, Any], *, remediation_id: str) -> SearchAnswer:
        """The workflows that fit best; `given` is the body of a search.

        Raises:
            FormularyError: as `answer`.
        """
        headers = incident_headers(remediation_id)
        return await self.answer(SearchAnswer, "POST", "/workflows/search", json=dict(given), headers=headers)

    async def whole_list(
        self,
        operation: "Operation[A, R]",
        given: Mapping[str, Any],
        *,
        entries: str,
        limit: int | None = None,
        remediation_id: str = "",
    ) -> "R":
        """The pages of a list as one, of at most `limit` entries; `entries` is the member of the answer that has them.

        Raises:
            FormularyError: as `ask`.
        """
        found: list[Any] = []
        notes: dict[str, None] = {}
        cursor = ""
        while True:
            most = _LISTED if limit is None else min(_LISTED, limit - len(found))
            page = await self.ask(operation, {**given, "limit": most, "cursor": cursor}, remediation_id=remediation_id)
            members = dict(page)
            found += members[entries]
            notes |= dict.fromkeys(members["notes"])
            cursor = members["next_cursor"]
            if not cursor or (limit is not None and len(found) >= limit):
                return page.model_copy(update={entries: found, "notes": [*notes], "next_cursor": ""})

    async def answer(self, kind: type[_A], method: str, path: str, *, in_result: bool = False, **options: Any) -> _A:
        """The answer to one request; `in_result` takes it out of the envelope of JSON-RPC.

        Raises:
            FormularyError: the server's own, or Unavailable where it does not answer.
        """
        try:
            response = await self._client.request(method, f"/api/v1{path}", **options)
        except httpx2.ConnectError:
            raise Unavailable(
                f"no server at {self.url}; start one with `formulary up`, or name another with --url"
            ) from None
        except UnicodeEncodeError:
            raise InvalidInput("what was given holds bytes that are no text; give it as UTF-8", field="input") from None
        except httpx2.HTTPError as error:
            raise Unavailable(f"the server at {self.url} does not answer ({type(error).__name__}); retry") from None
        if response.status_code != 200:
            raise _error(response, url=self.url)
        try:
            # A newer server says more.
            if in_result:
                return kind.model_validate(response.json()["result"], extra="ignore")
            return kind.model_validate_json(response.content, extra="ignore")
        except (ValidationError, ValueError, LookupError, TypeError):
            raise Unavailable(
                f"the server at {self.url} does not answer like this version of Formulary; check --url and the versions"
            ) from None


@asynccontextmanager
async def connected(url: str, *, token: str = "", seconds: float) -> AsyncIterator[Remote]:
    """The server at this address, asked with a bearer token if there is one; each answer may take so many seconds.

    Raises:
        InvalidInput: it is no HTTP address, or the token could not be sent.
    """
    if not (token.isascii() and token.isprintable()):
        raise InvalidInput("FORMULARY_TOKEN holds characters that no token has; set the token alone", field="token")
    try:
        address = httpx2.URL(url)
    except httpx2.InvalidURL:
        address = httpx2.URL()
    if address.scheme not in ("http", "https") or not address.host:
        raise InvalidInput(
            f"--url {without_userinfo(url)!r} is not an HTTP address; give one such as http://127.0.0.1:8080",
            field="url",
        )
    # A proxy of the environment cannot reach our own loopback.
    trust_env = not is_loopback(address.host)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(base_url=address, headers=headers, timeout=seconds, trust_env=trust_env) as client:
        server = Remote(client)
        note_source(server.url)
        yield server


def checked_arguments(operation: "Operation[A, R]", given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an operation that say something, and required lists, which may be empty.

    Raises:
        InvalidInput: an argument breaks a rule.
    """
    required = {name for name, field in operation.arguments.model_fields.items() if field.is_required()}
    said = without_nothing(given) | {name: [] for name in required if given.get(name) == []}
    operation.arguments.read(said)
    return said


def without_nothing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that say something."""
    return {name: value for name, value in given.items() if value not in (None, "", [], ())}


def incident_headers(remediation_id: str) -> dict[str, str]:
    """What names the incident of a call; nothing without one."""
    return {"X-Remediation-Id": remediation_id} if remediation_id else {}


def _error(response: httpx2.Response, *, url: str) -> FormularyError:
    """The server's error as the one it was raised as."""
    try:
        problem = response.json()["error"]
        message, data = str(problem["message"]), problem.get("data") or {}
        field = str(problem.get("field") or data.get("field") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return Unavailable(f"the server at {url} answers {response.status_code}; check that it is a Formulary server")
    if "invocation_id" in data:
        return _run_error(response.status_code, message, data=data)
    match response.status_code:
        case 404 if "nearest_documents" in data:
            return UnknownDocument(str(data.get("reference", "")), nearest=list(map(str, data["nearest_documents"])))
        case 404 if "nearest" in data:
            return UnknownWorkflow(str(data.get("reference", "")), nearest=list(map(str, data["nearest"])))
        case 404 if "workflow_id" in data:
            return NoWorkflowName(message, workflow_id=str(data["workflow_id"]))
        case 404:
            return NotFound(message, reference="")
        case 401:
            return NotAuthenticated(message)
        case 403:
            return NotAllowed(message)
        case 400 | 413:
            return InvalidInput(message, field=field)
        case 429:
            return RateLimited(message, retry_after=float(response.headers.get("Retry-After", 0)))
        case 500 if data.get("retry") is False:
            return NoExecutor(message)
        case _:
            return Unavailable(message)


def _run_error(status: int, message: str, *, data: Mapping[str, Any]) -> FormularyError:
    """How a run ended that the server knows by its id."""
    invocation_id = str(data["invocation_id"])
    match status:
        case 403:
            return RunRefused(message, invocation_id=invocation_id, decision=data.get("decision") or {})
        case 408:
            return RunTimedOut(message, invocation_id=invocation_id)
        case _:
            return RunFailed(message, invocation_id=invocation_id)


class Runs:
    """Asks for runs, follows and approves them, and lists those that wait. Errors are `FormularyError`s."""

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
        about: str = "",
    ) -> InvocationAnswer:
        """Ask for a run; `options` as JSON-RPC has them.

        Raises:
            NotFound: nothing of that name may be used; where the incident excludes it, the rule is named, and where the
                target does, that it does.
        """
        params = {"workflow_id": workflow_id, "version": version, "input": dict(values), "options": dict(options)}
        params |= {"target": about} if about else {}
        try:
            return await self._server.answer(
                InvocationAnswer,
                "POST",
                "/invoke",
                in_result=True,
                json={"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", "params": params},
                headers=incident_headers(remediation_id),
            )
        except UnknownWorkflow as unknown:
            if remediation_id and (rule := await self._exclusion(workflow_id, remediation_id=remediation_id)):
                raise NotFound(
                    f"{workflow_id} may not be used for {remediation_id}: {rule}; `formulary search` with "
                    "--remediation-id finds what may",
                    reference=unknown.reference,
                ) from None
            if about and await self._is_served(workflow_id):
                raise NotFound(
                    f"{workflow_id} may not be used for {about}; `formulary context {about}` shows what its owners "
                    "demand, `formulary search` with --target finds what may",
                    reference=unknown.reference,
                ) from None
            raise

    async def _is_served(self, workflow_id: str) -> bool:
        """Whether there is such a workflow where nothing is demanded, as far as a person may read it."""
        from formulary_catalog.operations.search import DETAILS

        try:
            await self._server.ask(DETAILS, {"workflow_id": workflow_id})
        except FormularyError:
            return False
        return True

    async def _exclusion(self, workflow_id: str, *, remediation_id: str) -> str:
        """The rule by which an incident excludes a workflow, as far as a person may read it; empty if there is none."""
        from formulary_catalog.operations.search import EXPLAIN

        asked = {"workflow": workflow_id, "query": workflow_id}
        try:
            found = await self._server.ask(EXPLAIN, asked, remediation_id=remediation_id)
        except FormularyError:
            return ""
        return f"{found.excluded_by.rule}: {found.excluded_by.reason}" if found.excluded_by is not None else ""

    async def status(self, invocation_id: str) -> InvocationAnswer:
        """State of a run."""
        return await self._run(invocation_id, "GET")

    async def until_over(self, invocation_id: str, *, show: Callable[[InvocationAnswer], None]) -> InvocationAnswer:
        """The run when it is over; `show` is called with each state before."""
        answer = await self.status(invocation_id)
        while not is_over(answer):
            show(answer)
            waiting = {"wait_ms": _WAIT_MS, "after_revision": answer.revision}
            answer = await self._run(invocation_id, "GET", params=waiting)
        return answer

    async def approve(self, invocation_id: str, *, decision: str, reason: str, digest: str = "") -> InvocationAnswer:
        """Say yes or no to a run that waits for it; with a `digest` to that content alone."""
        body = {"decision": decision, "reason": reason} | ({"digest": digest} if digest else {})
        return await self._run(invocation_id, "POST", part="/approval", json=body)

    async def waiting(self, *, namespace: str, limit: int) -> "WaitingRunList":
        """The runs that wait for a person, at most so many; the pages of the server as one."""
        from formulary_catalog.domain.reading import WaitingRunList

        asked: dict[str, Any] = {"namespace": namespace} if namespace else {}
        found: list[WaitingRun] = []
        while True:
            asked["limit"] = min(limit - len(found), _WAITING)
            page = await self._server.answer(WaitingRunList, "GET", "/approvals", params=asked)
            found += page.approvals
            if not page.next_cursor or len(found) >= limit:
                return page.model_copy(update={"approvals": found})
            asked["cursor"] = page.next_cursor

    async def _run(self, invocation_id: str, method: str, *, part: str = "", **options: Any) -> InvocationAnswer:
        path = f"/invocations/{invocation_id}{part}"
        try:
            return await self._server.answer(InvocationAnswer, method, path, **options)
        except NotFound as error:
            raise NotFound(
                f"there is no run {invocation_id!r} that you may read; `formulary approvals` lists those that wait, "
                "`kubectl get workflowinvocations -A` all that a cluster keeps",
                reference=invocation_id,
            ) from error


def is_over(answer: InvocationAnswer) -> bool:
    """Whether the run changes no more."""
    return answer.state in _OVER


def ask_for_runs(url: str | None, question: Callable[[Runs], Awaitable[_T]]) -> _T:
    """The answer of the server at this address, or the default one.

    Raises:
        FormularyError: the server's own, or Unavailable if it cannot be reached.
    """

    return ask_server(url, lambda server: question(Runs(server)))


def ask_server(url: str | None, question: Callable[[Remote], Awaitable[_T]], *, seconds: float = _RUN_SECONDS) -> _T:
    """What the server at this address, or the default one, answers the owner of FORMULARY_TOKEN in this time each.

    Raises:
        FormularyError: the server's own, or Unavailable if it cannot be reached.
    """

    async def asked() -> _T:
        async with connected(url or DEFAULT_URL, token=settings_of().token, seconds=seconds) as server:
            return await question(server)

    return asyncio.run(asked())
