"""`formulary demo`: one question, two teams, two answers, played to the end on a server of its own.

The server, its database, the agent's calls over MCP and the person's approval over REST are the real ones. Only what
would run a workflow is missing without a cluster: `services/runs/stand_in` takes the operator's place, and says so.
"""

import asyncio
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from formulary_catalog.edges.cli.options import DEFAULT_URL, data_dir_option, settings_of
from formulary_catalog.errors import StartupError

if TYPE_CHECKING:
    import httpx2

    from formulary_catalog.domain.reading import WaitingRun
    from formulary_catalog.runtime.standalone import Standalone
    from formulary_catalog.runtime.terminal import Page
    from formulary_catalog.settings import Settings

WIDTH = 60
_QUERY = "OOMKilled critical"
_FREE, _CAREFUL = "example-search/Deployment/indexer", "example-payments/Deployment/checkout"
_FORBIDDEN, _ALLOWED = "oom-raise-memory-limit", "oom-scale-out"
_WHY = "Memory follows the load of the sale; more replicas share it."
_INPUT = {
    "NAMESPACE": "example-payments",
    "DEPLOYMENT": "checkout",
    "SELECTOR": "app=checkout",
    "CURRENT_REPLICAS": 2,
    "REPLICAS": 4,
}
_SHOWN_HITS = 2
_SCALES = 2
"""Which of the steps changes something."""
_SECONDS = 60.0
_WAIT_MS = 20_000
_DIGEST = 19
_HOST = "127.0.0.1"


class _Finished(Exception):
    """The demo is over: the server stops."""


@click.command("demo")
@data_dir_option
def demo_command(*, data_dir: Path | None) -> None:
    """Play one incident of each of two teams, from the question to the approval.

    Starts a server on loopback with a PostgreSQL of its own and the starter catalog. An agent asks the same question
    for both teams and gets two answers; what one team forbids is refused by name; what it allows waits, and is
    approved. There is no cluster, so nothing is run. Everything is stopped and removed at the end; --data-dir names a
    new directory and keeps it.

    \b
    Examples:
      formulary demo
      formulary demo --data-dir /tmp/formulary-demo    # to go on with: formulary up --data-dir /tmp/formulary-demo
    """
    from formulary_catalog.loading.targets import OFF
    from formulary_catalog.log import configure_logging
    from formulary_catalog.runtime.process import INTERRUPTED, run_until_stopped
    from formulary_catalog.settings import ContextPolicy, ExecutionMode

    configure_logging(level="error", as_json=False)
    with _directory(data_dir) as directory:
        settings = settings_of(
            data_dir=directory,
            database_url="",
            host=_HOST,
            execution=ExecutionMode.AUTO,
            request_context=ContextPolicy.OPTIONAL,
            context_target=OFF,
        )
        run_until_stopped(lambda: _demo(settings), if_cancelled=INTERRUPTED)


@contextmanager
def _directory(named: Path | None) -> Iterator[Path]:
    """The directory to work in: the one that was named, else one that is removed at the end.

    Raises:
        StartupError: the named one holds something, which loading the examples might replace.
    """
    if named is None:
        with TemporaryDirectory(prefix="formulary-demo-", ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    if named.exists() and not (named.is_dir() and not any(named.iterdir())):
        raise StartupError(f"{named} is there already, and the demo loads a catalog of its own; name a new directory")
    yield named


async def _demo(settings: "Settings") -> None:
    from formulary_catalog.edges.app import create_app
    from formulary_catalog.edges.calls.caller import LOCAL
    from formulary_catalog.edges.calls.readiness import Readiness
    from formulary_catalog.edges.http.serving import serve
    from formulary_catalog.runtime.databases import with_local_parts
    from formulary_catalog.runtime.display import Display
    from formulary_catalog.runtime.process import background, hurry_on_signals
    from formulary_catalog.runtime.standalone import standalone
    from formulary_catalog.runtime.terminal import Page
    from formulary_catalog.services.runs.stand_in import stand_in

    with Display() as display:
        async with standalone(settings, manifests=(), examples=True, display=display) as catalog:
            readiness = Readiness(catalog_loaded=False, unembedded=lambda: catalog.filling.problem)
            app = create_app(catalog.parts, settings=with_local_parts(settings), readiness=readiness)
            executor = stand_in(
                catalog.writing,
                targets=catalog.parts.targets,
                caller=LOCAL,
                shared_namespace=settings.catalog_namespace,
            )

            async def play(port: int) -> None:
                await catalog.load(display=display)
                readiness.catalog_loaded = True
                display.close()
                async with background(executor):
                    await _story(f"http://{_HOST}:{port}", page=Page(widest=WIDTH), catalog=catalog)
                raise _Finished

            try:
                with suppress(_Finished):
                    await serve(
                        app,
                        host=settings.host,
                        port=0,
                        background=play,
                        settings=settings,
                        metrics=catalog.parts.metrics,
                    )
                    raise asyncio.CancelledError  # the server took the signal
            finally:
                hurry_on_signals()


async def _story(url: str, *, page: "Page", catalog: "Standalone") -> None:
    import httpx2

    from formulary_catalog.domain.reading import TraceAnswer, WaitingRunList
    from formulary_catalog.edges.cli.http_client import Remote, Runs
    from formulary_catalog.services.runs.stand_in import ENDED

    page.line("One question, two teams, two answers.", style="bold")
    page.paragraph("What a team accepts is a label on its namespace. No prompt can change it, and no agent sees it.")
    page.line()
    page.line("  example-search    environment=production")
    page.line("  example-payments  environment=production")
    page.line("                    constraint.formulary.dev/restarts=no")
    async with httpx2.AsyncClient(base_url=url, timeout=_SECONDS, trust_env=False) as http:
        agent, person = _Agent(http, page=page), Remote(http)
        runs = Runs(person)

        _heading(page, "1  An agent asks for example-search")
        await agent.search(_FREE)

        _heading(page, "2  It asks the same for example-payments")
        search_id = await agent.search(_CAREFUL)

        _heading(page, "3  It asks for the first one anyway, which restarts pods")
        await agent.call("invoke_workflow", workflow_id=_FORBIDDEN, search_id=search_id)

        _heading(page, "4  It chooses what is allowed, and asks for a run")
        await agent.call(
            "record_workflow_selection", workflow_id=_ALLOWED, search_id=search_id, reasoning=_WHY, confidence=0.9
        )
        run = await agent.call(
            "invoke_workflow", workflow_id=_ALLOWED, search_id=search_id, input=_INPUT, idempotency_key="demo"
        )
        page.line(f"   {run['state']}", style="yellow")

        _heading(page, "5  A person reads what would run, and approves")
        answer = await runs.status(run["invocation_id"])
        while not answer.content:  # it is rendered within moments
            asked = {"wait_ms": _WAIT_MS, "after_revision": answer.revision}
            answer = await person.answer(type(answer), "GET", f"/invocations/{answer.invocation_id}", params=asked)
        card = (await person.answer(WaitingRunList, "GET", "/approvals")).approvals[0]
        _show_card(card, page=page)
        await runs.approve(card.invocation_id, decision="Approve", reason="Nodes have room", digest=card.digest)
        page.line("   ✓ approved, for this digest alone", style="green")
        ended = await runs.until_over(card.invocation_id, show=lambda _: None)
        assert ended.message == ENDED, ended
        page.paragraph(ended.message, indent=3, mark="! ", style="yellow")

        _heading(page, "6  The record of that run")
        trace = await person.answer(TraceAnswer, "GET", f"/traces/{run['trace_id']}")
        for passage in trace.story.passages:
            title = passage.title.replace(f"{run['workflow_id']}@{run['version']}", _ALLOWED)
            by_whom = " (by the demo's stand-in: no Job)" if title.endswith(" started") else ""
            page.paragraph(title.partition(" after ")[0] + by_whom, indent=3, mark="· ")
        await _verify(catalog.settings, page=page)
    page.line()
    program = "formulary" if shutil.which("formulary") else sys.argv[0]
    page.line(f"Next: {program} up", style="bold")
    page.line(f"      {DEFAULT_URL}/console", style="bold")


class _Agent:
    """What an agent does: it calls tools over MCP, and reads what they answer."""

    def __init__(self, http: "httpx2.AsyncClient", *, page: "Page") -> None:
        self._http, self._page = http, page

    async def search(self, target: str) -> str:
        """Ask the question about a target; the id of the search."""
        namespace, kind, name = target.split("/")
        found = await self.call(
            "search_workflow_catalog",
            query=_QUERY,
            target_namespace=namespace,
            target_kind=kind,
            target_name=name,
        )
        for hit in found["workflows"][:_SHOWN_HITS]:
            self._page.line(f"   {hit['confidence']:.2f}  {hit['workflow_id']}", style="green")
            self._page.paragraph(hit["title"], indent=9)
        self._page.line(f"   of {found['total_results']} workflows allowed there", style="dim")
        return str(found["search_id"])

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; its answer, or nothing where it is refused."""
        shown = [arguments[name] for name in ("query", "workflow_id") if name in arguments]
        self._page.line(f"   > {tool} {shown[0]}", style="cyan")
        params = {"name": tool, "arguments": arguments}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Accept": "application/json, text/event-stream"}
        answer = (await self._http.post("/mcp", json=asked, headers=headers)).raise_for_status().json()["result"]
        if answer.get("isError"):
            self._page.paragraph(answer["content"][0]["text"], indent=3, mark="✗ ", style="red")
            return {}
        said: dict[str, Any] = answer["structuredContent"]
        return said


def _heading(page: "Page", text: str) -> None:
    page.line()
    page.line(text, style="bold")


def _show_card(card: "WaitingRun", *, page: "Page") -> None:
    facts: Sequence[tuple[str, str]] = (
        ("proposed", card.title),
        ("because", card.choice.reasoning if card.choice is not None else ""),
        ("waits", "; ".join(card.why)),
        ("runs", card.steps[_SCALES].command),
        ("", f"and {len(card.steps) - 1} more steps"),
        ("digest", f"{card.digest[:_DIGEST]}…"),
    )
    for label, value in facts:
        page.pair(label, value, indent=3)


async def _verify(settings: "Settings", *, page: "Page") -> None:
    """What `formulary trace verify` says of the whole trail, which the owner of the database reads."""
    from formulary_catalog.runtime.databases import existing_database
    from formulary_catalog.runtime.terminal import counted
    from formulary_catalog.store.audit.reader import TraceReader

    async with existing_database(settings) as dsn, TraceReader.open(dsn) as reader:
        replay = await reader.examine()
    if replay.passed:
        page.line(f"   ✓ all {counted(replay.event_count, 'event')} of this demo, as they were written", style="green")
    else:
        page.line(f"   ✗ {counted(len(replay.findings), 'finding')}", style="red")
