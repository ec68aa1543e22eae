"""The arms that are real servers over MCP: Formulary, alone and with governance, and mcp-server-qdrant.

What they hold is kept outside the repository, in a directory named by the hash of what was put in.
"""

import hashlib
import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from platformdirs import user_cache_path

import peer_model
from agents.arms import Arm, Offer, Tokens, told
from agents.inputs import example_input
from agents.questions import Incident, Question
from agents.remedies import Remedy
from formulary_catalog.store.embedded.server import default_data_dir
from mcp_sessions import KeptConnection, KeptSession, ToolFailed
from peer_servers import QDRANT
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
    with formulary_up(data_dir=home / "postgres", manifests=[directory]) as up:
        server = Formulary(up.url, tokens=tokens, remedies=remedies)
        try:
            yield server
        finally:
            server.close()


@contextmanager
def qdrant(remedies: Sequence[Remedy], tokens: Tokens) -> Iterator[Arm]:
    """B: mcp-server-qdrant, filled once through its own tool."""
    documents = [each.text for each in remedies]
    names = {each.text: each.name for each in remedies}
    model = installed(name=f"peer-model-{sys.implementation.cache_tag}", install=_install_model)
    home = user_cache_path("formulary") / "bench-agents" / f"qdrant-{_digest(*documents, *QDRANT.packages)}"
    if not (home / "filled").exists():
        home.mkdir(parents=True, exist_ok=True)
        with QDRANT.stdio(home=model, data=home / "data") as filling:
            QDRANT.fill(filling, documents)
        (home / "filled").touch()
    with ExitStack() as stack:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        url = stack.enter_context(QDRANT.served(home=model, data=home / "data", port=port))
        session = KeptSession(url)
        stack.callback(session.close)
        yield partial(_nearest, session, names=names, tokens=tokens, listed=_listed(KeptSession(url), tokens))


def _nearest(
    session: KeptSession, question: Question, *, names: Mapping[str, str], tokens: Tokens, listed: int
) -> Offer:
    tool, arguments = QDRANT.call(told(question))
    (answer,) = (each["text"] for each in session.call(tool, arguments)["content"])
    found = [re.sub(r"^<entry><content>|</content>.*$", "", each, flags=re.DOTALL) for each in json.loads(answer)]
    return Offer(
        names=tuple(names[each] for each in found if each in names),
        tokens=listed + tokens(answer),
        calls=1,
        listed=listed,
    )


def _listed(session: KeptSession, tokens: Tokens) -> int:
    """Tokens of the names, descriptions and input schemas of all tools, which a model reads."""
    tools = session.tools()
    session.close()
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
