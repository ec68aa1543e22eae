"""The arms that are real servers over MCP: Formulary, alone and with governance, mcp-server-qdrant and chroma-mcp.

What they hold is kept outside the repository, in a directory named by the hash of what was put in.
"""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

import peer_model
from agents.arms import Arm, Offer, Tokens, told
from agents.inputs import example_input
from agents.questions import Incident, Question
from agents.remedies import Remedy
from formulary_catalog.store.embedded.server import default_data_dir
from mcp_sessions import KeptConnection, KeptSession, ToolFailed
from mcp_stdio import StdioSession
from peer_servers import CHROMA, QDRANT, Peer
from support.manifest import text
from support.process import formulary_up
from support.toolcache import installed, run_installer

SEARCH, INVOKE = "search_workflow_catalog", "invoke_workflow"
CONTRACT = {
    "apiVersion": "formulary.dev/v1alpha1",
    "kind": "GovernanceContract",
    "metadata": {"name": "no-high-risk-in-production", "namespace": "formulary"},
    "spec": {
        "rules": [
            {
                "id": "no-high-risk-in-production",
                "effect": "DENY",
                "match": {"riskLevels": ["high"], "environments": ["production"]},
            }
        ]
    },
}
_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{16,}\b|\d{4}-\d\d-\d\dT[\d:.]+Z?|(?<=_ms\":)\d+|(?<=_ms\": )\d+"
)
_LOADED_SECONDS = 1800
"""For 5,000 workflows on a busy machine, whose vectors are computed in the first run."""
_REFUSED = ("DENY", "no-high-risk-in-production", "not found", "-32001")


class Formulary:
    """E, and what F asks it besides."""

    def __init__(self, url: str, *, tokens: Tokens, remedies: Sequence[Remedy]) -> None:
        self._url = f"{url}/mcp"
        self._tokens = tokens
        self._remedies = {each.name: each for each in remedies}
        self._decided: dict[tuple[str, str], tuple[bool, int]] = {}
        self._connection: tuple[str, KeptConnection] | None = None
        self._listed = _listed(KeptSession(self._url), tokens)

    def offer(self, question: Question) -> Offer:
        """E: what it returns for the incident."""
        result = self._of(question.incident).call(SEARCH, {"query": question.query})
        found = result["structuredContent"]["workflows"]
        return Offer(
            names=tuple(each["workflow_id"] for each in found),
            tokens=self._listed + self._tokens(_steady(result["content"][0]["text"])),
            calls=1,
            listed=self._listed,
            confidence=max((each["confidence"] for each in found), default=0.0),
        )

    def accepts(self, incident: Incident, name: str) -> tuple[bool, int]:
        """F: whether a dry run of the workflow is let through, and the tokens of the answer."""
        key = (incident.id, name)
        if key not in self._decided:
            arguments = {"workflow_id": name, "input": example_input(self._remedies[name].spec), "dry_run": True}
            try:
                answer = json.dumps(self._of(incident).call(INVOKE, arguments)["structuredContent"])
            except ToolFailed as failed:
                answer = str(failed)
            refused = any(sign in answer for sign in _REFUSED)
            self._decided[key] = (not refused, self._tokens(_steady(answer)))
        return self._decided[key]

    def close(self) -> None:
        if self._connection is not None:
            self._connection[1].close()

    def _of(self, incident: Incident) -> KeptConnection:
        """A connection of a client that names the incident in its header; the one before is closed."""
        if self._connection is None or self._connection[0] != incident.id:
            self.close()
            self._connection = (
                incident.id,
                KeptConnection(self._url, headers={"X-Remediation-Id": incident.id}),
            )
        return self._connection[1]


@contextmanager
def formulary(remedies: Sequence[Remedy], incidents: Sequence[Incident], tokens: Tokens) -> Iterator[Formulary]:
    """A running server that holds these workflows, incidents and the contract."""
    manifests = text(*(dict(each.manifest) for each in remedies), *(each.manifest for each in incidents), CONTRACT)
    home = default_data_dir().with_name("bench-agents") / _digest(manifests)
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o711)
    directory = user_cache_path("formulary") / "bench-agents" / _digest(manifests)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "all.yaml").write_text(manifests, encoding="utf-8")
    os.environ |= {"FORMULARY_DRY_RUNS_PER_HOUR": "0"}
    with formulary_up(data_dir=home / "postgres", manifests=[directory], seconds=_LOADED_SECONDS) as up:
        server = Formulary(up.url, tokens=tokens, remedies=remedies)
        try:
            yield server
        finally:
            server.close()


@contextmanager
def vector_server(peer: Peer, remedies: Sequence[Remedy], tokens: Tokens) -> Iterator[Arm]:
    """B and B2: the server of a vector database, filled once through its own tool."""
    documents = [each.text for each in remedies]
    names = {each.text: each.name for each in remedies}
    model = installed(name=f"peer-model-{sys.implementation.cache_tag}", install=_install_model)
    home = user_cache_path("formulary") / "bench-agents" / f"{peer.name}-{_digest(*documents, *peer.packages)}"
    filled = home / "filled"
    if not filled.exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
    with peer.stdio(home=model, data=home / "data") as session:
        if not filled.exists():
            peer.fill(session, documents)
            filled.touch()
        yield partial(_nearest, peer, session, names=names, tokens=tokens, listed=_tokens(session.tools(), tokens))


def _nearest(
    peer: Peer, session: StdioSession, question: Question, *, names: Mapping[str, str], tokens: Tokens, listed: int
) -> Offer:
    tool, arguments = peer.call(told(question))
    (answer,) = (each["text"] for each in session.call(tool, arguments)["content"])
    return Offer(
        names=tuple(names[each] for each in _DOCUMENTS[peer.name](json.loads(answer)) if each in names),
        tokens=listed + tokens(answer),
        calls=1,
        listed=listed,
    )


def _entries(answer: Sequence[str]) -> list[str]:
    """The documents in an answer of mcp-server-qdrant."""
    return [re.sub(r"^<entry><content>|</content>.*$", "", each, flags=re.DOTALL) for each in answer]


def _first_query(answer: Mapping[str, Sequence[Sequence[str]]]) -> Sequence[str]:
    """The documents in an answer of chroma-mcp, which takes several queries."""
    return answer["documents"][0]


_DOCUMENTS: Mapping[str, Callable[[Any], Sequence[str]]] = {QDRANT.name: _entries, CHROMA.name: _first_query}


def _listed(session: KeptSession, tokens: Tokens) -> int:
    """Tokens of all tools of a session, which ends."""
    tools = session.tools()
    session.close()
    return _tokens(tools, tokens)


def _tokens(tools: Sequence[Mapping[str, Any]], tokens: Tokens) -> int:
    """Tokens of the names, descriptions and input schemas of tools, which a model reads."""
    return tokens(
        json.dumps([{key: each.get(key) for key in ("name", "description", "inputSchema")} for each in tools])
    )


def _steady(answer: str) -> str:
    """An answer without what is different each time: ids and times."""
    return _VARYING.sub("id", answer)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _install_model(directory: Path) -> None:
    run_installer([sys.executable, Path(peer_model.__file__), directory])
