"""What docs/demo/README.md shows: workflows and incidents applied with kubectl, and HolmesGPT asking for each incident.

The API server, the operator, the server and HolmesGPT are the real ones; only the model is scripted.
"""

import json
import re
import shlex
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from support.cluster import install_kinds, new_operator_account
from support.control_plane import Cluster
from support.holmes import CallReport, Chat, Report, ToolCall, converse
from support.operator_process import operator, server

LEDGER, INDEXER = "rr-ledger", "rr-indexer"
"""Remediation ids of the two incidents."""

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "demo" / "README.md"
_RECORDED = re.compile(r"^(```text\n)(.*?)^(```)$", re.MULTILINE | re.DOTALL)
_SYSTEM = "formulary-system"
_CALLS = (
    ToolCall(tool="search_workflow_catalog", arguments={"query": "OOMKilled critical"}),
    ToolCall(tool="get_workflow_details", arguments={"workflow_id": "oom-restart-indexer"}),
)
_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """What happened: all of it as text, and what HolmesGPT reports of its conversations under each of two accounts."""

    transcript: str
    holmesgpt: Report
    visitor: Report


def demonstrate(cluster: Cluster, *, dsn: str) -> Demonstration:
    """Show it in an empty cluster, with the migrated database at `dsn`."""
    install_kinds(cluster, _ROOT / "crds")
    account = new_operator_account(cluster, namespace=_SYSTEM)
    server_account = _server_account(cluster)
    shown = _Transcript(cluster)
    with ExitStack() as stack:
        stack.enter_context(operator(dsn=dsn, kubeconfig=account.kubeconfig)).start().wait_ready()
        serving = stack.enter_context(
            server(dsn=dsn, kubeconfig=server_account, authentication="kubernetes", request_context="required")
        )
        serving.start().wait_ready()
        for file in ("access", "workflows", "incidents"):
            shown.kubectl(f"apply -f docs/demo/{file}.yaml")
        shown.kubectl("wait -n formulary --for=condition=Ready remediationworkflows --all")
        shown.kubectl("get remediationworkflows -n formulary")
        holmesgpt = shown.conversations(f"{serving.url}/mcp", LEDGER, INDEXER, account="holmesgpt")
        visitor = shown.conversations(f"{serving.url}/mcp", LEDGER, account="visitor")
    return Demonstration(transcript=str(shown), holmesgpt=holmesgpt, visitor=visitor)


def recorded() -> str:
    """The transcript that the page holds."""
    found = _RECORDED.search(_PAGE.read_text())
    assert found is not None
    return found[2]


def record(transcript: str) -> None:
    """Put a transcript in the place of the one that the page holds."""
    _PAGE.write_text(_RECORDED.sub(lambda found: found[1] + transcript + found[3], _PAGE.read_text()))


class _Transcript:
    """Commands with what they printed, and conversations with what the model was shown."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._parts: list[str] = []

    def __str__(self) -> str:
        return "\n\n".join(self._parts) + "\n"

    def kubectl(self, command: str) -> str:
        """Run a command in the root of the repository; what it printed."""
        words = (str(_ROOT / word) if word.startswith("docs/") else word for word in shlex.split(command))
        printed = self._cluster.kubectl(*words).strip()
        self._parts.append(f"$ kubectl {command}\n{_lasting(printed)}")
        return printed

    def conversations(self, url: str, *remediation_ids: str, account: str) -> Report:
        """Hold one for each incident, all at once, with a token of the ServiceAccount."""
        token = self.kubectl(f"create token {account} -n agents --audience=formulary")
        chats = {incident: Chat(headers={"x-remediation-id": incident}, calls=_CALLS) for incident in remediation_ids}
        report = converse(url=url, chats=chats, token=token)
        for incident, chat in report.chats.items():
            lines = [f"HolmesGPT {report.version} as {account}, X-Remediation-Id: {incident}"]
            for call, asked in zip(chat.calls, _CALLS, strict=True):
                lines.append(f"  the model calls {call.tool} {json.dumps(asked.arguments)} and reads")
                lines += (f"    {line}" for line in _shown(call))
            self._parts.append("\n".join(lines))
        return report


def _server_account(cluster: Cluster) -> Path:
    """The kubeconfig of a server that may check tokens and rights."""
    token = cluster.service_account(_SYSTEM, "server", audiences=[])
    cluster.kubectl(
        "create",
        "clusterrolebinding",
        "formulary-server",
        "--clusterrole=system:auth-delegator",
        f"--serviceaccount={_SYSTEM}:server",
    )
    return cluster.kubeconfig_for(token)


def _lasting(printed: str) -> str:
    """What kubectl printed, without what is another every time: ages, and the greater part of tokens."""
    ageless = re.sub(r"\b\d+s$", "1s", printed, flags=re.MULTILINE)
    return re.sub(r"\beyJ[\w.-]+", "eyJhbGciOi…", ageless)


def _shown(call: CallReport) -> Iterator[str]:
    """What a call told the model, shortened to the workflows that were found."""
    if call.status != "success":
        yield from textwrap.wrap(f"{call.status}: {call.data}", width=_WIDTH)
        return
    answer = json.loads(call.data or "{}")
    for found in answer.get("workflows", [answer]):
        yield f"{found['workflow_id']}@{found['version']}: {found['title']}"
