"""A whole MCP search next to mcp-server-qdrant and chroma-mcp: the same documents, the same model, the same sessions.

The peers only look for the nearest vectors. Ours checks labels and rights, ranks by words as well, gives reasons, and
writes each search into its audit trail before it answers. It is asked for an incident: it looks up what the incident
demands, here nothing. It is asked twice: in words alone, so that it compares all documents as the others do, and as
agents ask, with the signal and the severity of the alert before the same words, by which it leaves most of them out;
the peers have nothing to do that with. A tool of ours that does nothing is asked as well: no search could be faster.
"""

import argparse
import asyncio
import json
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import count, cycle
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench_mcp import INCIDENT, REMEDIATION_ID, SEARCH, Client, seconds_of, server
from bench_server import TRIVIAL_TOOL
from catalogs import Catalog
from formulary_catalog.embedding import load_embedder
from formulary_catalog.operations.json_text import META_KEY
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from mcp_sessions import KeptSession, SessionEachCall
from mcp_stdio import stdio_session
from peer_servers import PEERS, TOP, Peer
from quantiles import milliseconds
from support.manifest import analysis, text
from support.process import FORMULARY
from support.serving import load
from support.toolcache import installed, run_installer

OURS, ALERT, NOTHING = "formulary", "formulary, with the alert", "formulary, a tool that does nothing"
GOAL = 3.0
_WARM_UP = 5
WHOLE, KEPT, STDIO = "whole session, HTTP", "kept session, HTTP", "kept session, stdio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A server, how it is asked, and what the searches take in milliseconds; `slower` than ours at p50, both ways."""

    name: str
    session: str
    query: str
    p50: float
    p95: float
    slower: float
    slower_than_alert: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: the words, and the signal type that the alert gives for them."""

    words: str
    signal: str

    @property
    def alert(self) -> str:
        """The query of an agent that follows the tool's description."""
        return f"{self.signal} critical {self.words}"


_REPEATED = Question(
    words="pods of the checkout service use more and more memory until they are killed", signal="OOMKilled"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A client of a server, and how a question is a call of a tool there."""

    name: str
    client: Client
    call: Callable[[Question], tuple[str, dict[str, Any]]]


def measure(*, documents: int, rounds: int) -> list[Asked]:
    """Fill all servers, and ask them in turns."""
    catalog = Catalog(documents)
    home = installed(name=f"peer-model-{sys.implementation.cache_tag}", install=_install_model)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="formulary-bench-")))
        directory.chmod(0o711)
        subjects: dict[str, list[Subject]] = {WHOLE: [], KEPT: [], STDIO: []}
        _start_ours(subjects, catalog=catalog, directory=directory, stack=stack)
        _start_peers(subjects, catalog=catalog, directory=directory, home=home, stack=stack)
        questions = _questions(catalog)
        return [
            asked
            for session, members in subjects.items()
            for asked in _asked(session, members, questions=questions, rounds=rounds)
        ]


def _start_ours(subjects: Mapping[str, list[Subject]], *, catalog: Catalog, directory: Path, stack: ExitStack) -> None:
    postgres = stack.enter_context(EmbeddedPostgres(data_dir=directory / OURS))
    dsn = postgres.dsn(database="postgres")
    migrate(dsn)
    manifests = directory / "manifests.yaml"
    incident = analysis("bench", remediation_id=REMEDIATION_ID, environment="")
    workflows = (dict(each.documents[-1]) for each in catalog.workflows())
    manifests.write_text(text(incident, *workflows), encoding="utf-8")
    asyncio.run(load([manifests], dsn=dsn, embedder=load_embedder()))
    url, _ = stack.enter_context(server(dsn))
    command = [FORMULARY, "stdio", "--database-url", dsn]
    log = directory / "ours.log"
    clients: dict[str, Client] = {
        WHOLE: SessionEachCall(url, headers=INCIDENT),
        KEPT: KeptSession(url, headers=INCIDENT),
        STDIO: stack.enter_context(stdio_session(command, environment={}, log=log, meta={META_KEY: REMEDIATION_ID})),
    }
    for session, client in clients.items():
        subjects[session] += [
            Subject(name=OURS, client=client, call=lambda asked: (SEARCH, {"query": asked.words, "top_k": TOP})),
            Subject(name=ALERT, client=client, call=lambda asked: (SEARCH, {"query": asked.alert, "top_k": TOP})),
        ]
    for session in (WHOLE, KEPT):
        subjects[session].append(Subject(name=NOTHING, client=clients[session], call=lambda _: (TRIVIAL_TOOL, {})))


def _start_peers(
    subjects: Mapping[str, list[Subject]], *, catalog: Catalog, directory: Path, home: Path, stack: ExitStack
) -> None:
    sentences = catalog.embedded_texts()
    documents = [sentences[each.text] for each in catalog.workflows()]
    for peer in PEERS:
        data = directory / peer.name
        with peer.stdio(home=home, data=data) as session:
            peer.fill(session, documents)
        if peer.http:
            url = stack.enter_context(peer.served(home=home, data=data, port=_free_port()))
            subjects[WHOLE].append(_subject(peer, client=SessionEachCall(url)))
            subjects[KEPT].append(_subject(peer, client=KeptSession(url)))
        else:
            subjects[STDIO].append(_subject(peer, client=stack.enter_context(peer.stdio(home=home, data=data))))


def _subject(peer: Peer, *, client: Client) -> Subject:
    return Subject(name=peer.name, client=client, call=lambda asked: peer.call(asked.words))


def _asked(session: str, subjects: list[Subject], *, questions: Iterator[Question], rounds: int) -> Iterator[Asked]:
    for kind in ("new", "repeated"):
        times: dict[str, list[float]] = {subject.name: [] for subject in subjects}
        for number in track(range(_WARM_UP + rounds), description=f"{session}, {kind}", transient=True):
            question = next(questions) if kind == "new" else _REPEATED
            for subject in subjects:
                taken = seconds_of(subject.client, subject.call(question))
                if number >= _WARM_UP:
                    times[subject.name].append(taken)
        ours, _ = milliseconds(times[OURS])
        alert, _ = milliseconds(times[ALERT])
        for name, taken_each in times.items():
            p50, p95 = milliseconds(taken_each)
            yield Asked(
                name=name,
                session=session,
                query=kind,
                p50=p50,
                p95=p95,
                slower=p50 / ours,
                slower_than_alert=p50 / alert,
            )


def _questions(catalog: Catalog) -> Iterator[Question]:
    """What is seen of each trouble, none twice: many sentences say the same was seen.

    The words of none begin with a signal, so that all documents are compared.
    """
    for number, sentence in zip(count(1), cycle(catalog.sentences)):
        _, _, seen = sentence.when_to_use.partition(": ")
        words = f"{sentence.kind.rpartition('/')[2]} {number} in trouble: {seen}"
        yield Question(words=words, signal=sentence.signals[0])


def _install_model(directory: Path) -> None:
    run_installer([sys.executable, Path(__file__).with_name("peer_model.py"), directory])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def report(measured: list[Asked]) -> None:
    """Print the table."""
    table = Table("a search over MCP", "", "query", "p50 ms", "p95 ms", "to ours", "to ours with the alert", "goal")
    for asked in measured:
        peer = asked.name not in (OURS, ALERT, NOTHING)
        table.add_row(
            asked.session,
            asked.name,
            asked.query,
            f"{asked.p50:.1f}",
            f"{asked.p95:.1f}",
            f"{asked.slower:.1f}x",
            f"{asked.slower_than_alert:.1f}x",
            f">= {GOAL:g}x" if peer else "",
        )
    Console(width=120).print(table)


def main() -> None:
    """Measure once; print, and write what was measured where `--json` says."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--documents", type=int, default=1000, help="in each server (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=100, help="searches of each kind (default: %(default)s)")
    options = parser.parse_args()
    measured = measure(documents=options.documents, rounds=options.rounds)
    report(measured)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(each) for each in measured], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
