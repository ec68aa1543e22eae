"""The MCP project's own conformance suite, run against a server of ours."""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from support.toolcache import npm_packages

SUITE = "0.2.0-alpha.12"

# Of an extension of 2026-07-28: without `--force` the suite skips them. It sends no incident, and so reads the
# guide alone. Left out is `sep-2640-skills-directory`, about an option that we do not declare.
_SKILLS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest")
_HANDSHAKE = ("server-initialize", "ping", "tools-list", "resources-list", "prompts-list")

# What applies to any server. Left out are the scenarios that call tools, prompts and resources which only a fixture
# server has, and `server-session-lifecycle`, which gives no verdict on a stateless server.
SCENARIOS = {
    "2025-06-18": _HANDSHAKE,
    "2025-11-25": (*_HANDSHAKE, "dns-rebinding-protection"),
    "2026-07-28": (
        "server-stateless",
        "tools-list",
        "resources-list",
        "prompts-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "sep-2164-resource-not-found",
        "input-required-result-unsupported-methods",
        *_SKILLS,
    ),
}

# These call a tool that only a fixture server has. Our "unknown tool" answer passes some and fails others; neither
# says anything about us.
_NEED_A_FIXTURE = frozenset(
    {
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
        "sep-2575-server-sends-prompts-list-changed-on-subscription",
        "sep-2575-server-sends-tools-list-changed-on-subscription",
    }
)

# Succeeds where nothing was received at all, so it never counts as a check that ran.
_SUCCEEDS_ON_SILENCE = "wire-schema-valid"


@dataclass(frozen=True)
class Check:
    """One verdict of the suite; `status` is SUCCESS, FAILURE, WARNING, SKIPPED or INFO."""

    name: str
    status: str
    message: str

    @property
    def ran(self) -> bool:
        return self.status in {"SUCCESS", "FAILURE"} and self.name != _SUCCEEDS_ON_SILENCE


def run_scenario(*, url: str, revision: str, scenario: str) -> list[Check]:
    """The checks of one scenario against the MCP endpoint `url`, spoken to in protocol revision `revision`.

    Empty if the suite has no such scenario for that revision; the suite itself calls that a success.
    """
    tools = npm_packages(f"conformance-{SUITE}", f"@modelcontextprotocol/conformance@{SUITE}")
    suite = tools / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    options = ["--url", url, "--scenario", scenario, "--spec-version", revision]
    options += ["--force"] if scenario in _SKILLS else []
    with tempfile.TemporaryDirectory() as results:
        done = subprocess.run(
            [tools / ".bin" / "node", suite, "server", *options, "--output-dir", results],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        reports = list(Path(results).glob("*/checks.json"))
        if done.returncode != 0 and not reports:
            raise RuntimeError(f"the conformance suite broke down in '{scenario}': {done.stderr[-2000:]}")
        found = [check for report in reports for check in json.loads(report.read_text())]
    return [
        Check(name=check["id"], status=check["status"], message=check.get("errorMessage", ""))
        for check in found
        if check["id"] not in _NEED_A_FIXTURE
    ]
