"""`kubectl formulary`: commands find the server in the cluster by the kubeconfig; kubectl is a stand-in."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from formulary_catalog.edges.cli.cluster.plugin import plugin
from support.kubectl_stand_in import stand_in


@dataclass(slots=True)
class Cluster:
    """What kubectl was called with, and what the server behind the forwarded port was asked."""

    log: Path
    asked: list[tuple[str, str]] = field(default_factory=list)

    def called(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A server behind a port that the stand-in forwards; nothing else names a server."""
    found = Cluster(tmp_path / "log")

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append((self.path.partition("?")[0], self.headers.get("Authorization", "")))
            body = json.dumps(
                {"workflows": [], "total": 0, "total_results": 0, "next_cursor": "", "notes": []}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stand_in(tmp_path, port=server.server_port)
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
        for name in ("FORMULARY_URL", "FORMULARY_TOKEN", "FORMULARY_SERVICE_ACCOUNT"):
            monkeypatch.delenv(name, raising=False)
        yield found
        server.shutdown()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(plugin, arguments, prog_name="kubectl formulary")


def test_a_command_asks_the_server_of_the_kubeconfig_as_the_service_account(cluster: Cluster) -> None:
    result = run("--context", "prod", "--service-account", "shop/oncall", "list")

    assert result.exit_code == 1, result.output  # there is none
    assert cluster.asked == [("/api/v1/workflows", "Bearer a.token.of-it")]
    made, _, forwarded = cluster.called()
    assert made.startswith("--context=prod create token oncall --namespace=shop --audience=formulary")
    assert forwarded.startswith("--context=prod port-forward --namespace=formulary")


def test_a_token_of_the_environment_is_sent_and_none_is_made(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORMULARY_TOKEN", "mine")

    run("-n", "catalog", "list")

    assert cluster.asked == [("/api/v1/workflows", "Bearer mine")]
    assert [call.split()[0] for call in cluster.called()] == ["get", "port-forward"]
    assert "--namespace=catalog" in cluster.called()[1]


def test_nothing_of_the_kubeconfig_is_sent_where_nobody_is_named(cluster: Cluster) -> None:
    result = run("list")

    assert (result.exit_code, cluster.asked, cluster.called()) == (2, [], [])
    assert "--service-account is missing" in result.stderr


@pytest.mark.parametrize("arguments", [("new", "a"), ("list", "--help"), ("trace", "show", "--help"), ("--help",)])
def test_what_asks_no_server_calls_no_kubectl(cluster: Cluster, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)

    assert (result.exit_code, cluster.called()) == (0, [])
    assert arguments == ("new", "a") or result.output.startswith("Usage: kubectl formulary")


def test_a_certificate_for_another_name_is_said(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORMULARY_TOKEN", "mine")

    result = run("--service", "secured", "list")

    assert (result.exit_code, cluster.asked) == (3, [])
    assert "for other names than 127.0.0.1" in result.stderr
