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
    assert result.stderr.endswith("answer of service formulary in formulary of context prod\n")
    assert made.startswith("--context=prod create token oncall --namespace=shop --audience=formulary")
    assert forwarded.startswith("--context=prod port-forward --namespace=formulary")


def test_a_token_of_the_environment_is_sent_and_none_is_made(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORMULARY_TOKEN", "mine")

    result = run("-n", "catalog", "list")

    assert result.stderr.endswith("answer of service formulary in catalog of context current\n")
    assert cluster.asked == [("/api/v1/workflows", "Bearer mine")]
    assert [call.split()[0] for call in cluster.called()] == ["get", "port-forward", "config"]
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


@pytest.mark.parametrize("variables", [{"FORMULARY_TOKEN": "mine"}, {"FORMULARY_URL": "http://127.0.0.1:1"}])
def test_what_a_person_typed_wins_over_the_environment(
    cluster: Cluster, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    run("--service-account", "shop/oncall", "list")

    assert cluster.asked == [("/api/v1/workflows", "Bearer a.token.of-it")]


def test_an_empty_address_of_the_environment_names_no_server(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORMULARY_URL", "")
    monkeypatch.setenv("FORMULARY_TOKEN", "mine")

    run("list")

    assert cluster.asked == [("/api/v1/workflows", "Bearer mine")]


def test_an_address_of_the_environment_is_asked_where_no_cluster_is_typed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORMULARY_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("FORMULARY_SERVICE_ACCOUNT", "shop/oncall")

    assert (run("list").exit_code, cluster.called()) == (3, [])


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        (("--service-account", "a/b", "console"), "create token b --namespace=a"),
        (("--service-account", "a/b", "console", "--service-account", "e/f"), "create token f --namespace=e"),
        (("--context", "prod", "console"), "--context=prod create token d --namespace=c"),
    ],
)
def test_the_console_is_opened_as_the_person_typed(
    cluster: Cluster, arguments: tuple[str, ...], made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORMULARY_SERVICE_ACCOUNT", "c/d")

    run(*arguments, "--service", "busy")

    assert cluster.called()[0].startswith(made)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("runbooks", "list"), "asks no server"),
        (("trace", "verify"), "asks no server"),
        (("trace", "export", "--all"), "asks no server"),
        (("governance", "evaluate", "a"), "asks no server"),
        (("migrate",), "asks no server"),
        (("list", "--url", "http://127.0.0.1:1"), "--url names what is asked"),
        (("list", "--data-dir=x"), "--data-dir names what is asked"),
    ],
)
def test_a_cluster_is_refused_where_it_would_not_be_asked(
    cluster: Cluster, arguments: tuple[str, ...], reason: str
) -> None:
    result = run("--context", "prod", "--service-account", "a/b", *arguments)

    assert (result.exit_code, cluster.called()) == (2, [])
    assert reason in result.stderr
    assert "leave out --context, --service-account" in result.stderr


@pytest.mark.parametrize("arguments", [("trace", "verify"), ("governance", "evaluate", "a")])
def test_no_port_is_forwarded_for_what_asks_no_server(
    cluster: Cluster, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORMULARY_TOKEN", "mine")
    monkeypatch.setenv("FORMULARY_DATA_DIR", str(tmp_path / "none"))

    result = run(*arguments)

    assert cluster.called() == []
    assert "FORMULARY_URL" not in result.stderr


def test_the_version_is_that_of_formulary(cluster: Cluster) -> None:
    result = run("--version")

    assert (result.exit_code, cluster.called()) == (0, [])
    assert result.output.startswith("formulary, version ")
