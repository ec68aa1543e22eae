"""A real Prometheus and a real Alertmanager on loopback: Debian's, unpacked rather than installed as services."""

import platform
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import yaml

from support.control_plane import free_port
from support.toolcache import debian_packages
from support.waiting import wait_until

RULE = "KubeDeploymentReplicasMismatch"
"""The alert of the one rule: it fires for each series with a value above 0."""
_SERIES = "kube_deployment_status_replicas_unavailable"
_CACHED = f"alerting-bookworm-{platform.machine()}"


@dataclass
class Exporter:
    """Says how many replicas each Deployment lacks, as kube-state-metrics does."""

    unavailable: dict[tuple[str, str], int] = field(default_factory=dict)

    def text(self) -> str:
        """The page that Prometheus scrapes."""
        return "".join(
            f'{_SERIES}{{namespace="{namespace}",deployment="{name}"}} {count}\n'
            for (namespace, name), count in {**self.unavailable}.items()
        )


@dataclass(frozen=True)
class Alerting:
    """What fires and resolves alerts by itself, by what the exporter says."""

    exporter: Exporter
    alertmanager: str

    def fingerprints(self) -> dict[str, str]:
        """Those of the alerts that Alertmanager knows to fire, by the name of their Deployment."""
        answered = httpx2.get(f"{self.alertmanager}/api/v2/alerts", timeout=5).raise_for_status().json()
        return {each["labels"]["deployment"]: each["fingerprint"] for each in answered}


@contextmanager
def alerting(*, receiver: str, token: str) -> Iterator[Alerting]:
    """Both programs, until the block ends; Alertmanager posts to this address, with this token, each second."""
    exporter, alertmanager = Exporter(), f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory(prefix="formulary-alerting-") as place, _scraped(exporter) as scraped:
        home = Path(place)
        receivers = _written(home / "alertmanager.yml", _receivers(receiver, token=token))
        rules = _written(home / "rules.yml", _RULES)
        with (
            _running(
                "prometheus-alertmanager",
                f"--config.file={receivers}",
                f"--storage.path={home / 'alertmanager'}",
                f"--web.listen-address={alertmanager}",
                "--cluster.listen-address=",
                url=f"http://{alertmanager}/-/ready",
            ),
            prometheus(_scraping(scraped, rules=rules, alertmanager=alertmanager)),
        ):
            yield Alerting(exporter=exporter, alertmanager=f"http://{alertmanager}")


@contextmanager
def prometheus(configuration: Mapping[str, Any] | None = None) -> Iterator[str]:
    """The address of a Prometheus, until the block ends; without a configuration it scrapes nothing."""
    listens = f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory(prefix="formulary-prometheus-") as home:
        options = [
            f"--config.file={_written(Path(home, 'prometheus.yml'), configuration or {})}",
            f"--storage.tsdb.path={home}/stored",
            f"--web.listen-address={listens}",
        ]
        with _running("prometheus", *options, url=f"http://{listens}/-/ready"):
            yield f"http://{listens}"


def _home() -> Path:
    return debian_packages(_CACHED, "prometheus", "prometheus-alertmanager", adapt=_find_templates_here)


def _find_templates_here(home: Path) -> None:
    """Have Alertmanager read its own templates below the working directory: it knows where it is installed alone."""
    program = home / "usr" / "bin" / "prometheus-alertmanager"
    program.write_bytes(program.read_bytes().replace(b"/usr/share/prometheus/", b"usr//share/prometheus/"))


_RULES: Mapping[str, Any] = {
    "groups": [
        {
            "name": "tests",
            "interval": "1s",
            "rules": [
                {
                    "alert": RULE,
                    "expr": f"{_SERIES} > 0",
                    "labels": {"severity": "critical"},
                    "annotations": {"summary": "oom restart raise"},
                }
            ],
        }
    ]
}


def _receivers(receiver: str, *, token: str) -> Mapping[str, Any]:
    webhook = {"url": receiver, "send_resolved": True, "http_config": {"authorization": {"credentials": token}}}
    route = {
        "receiver": "formulary",
        "group_by": ["alertname"],
        "group_wait": "0s",
        "group_interval": "1s",
        "repeat_interval": "1s",
    }
    return {"route": route, "receivers": [{"name": "formulary", "webhook_configs": [webhook]}]}


def _scraping(scraped: str, *, rules: Path, alertmanager: str) -> Mapping[str, Any]:
    job = {
        "job_name": "kube-state-metrics",
        "honor_labels": True,
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "static_configs": [{"targets": [scraped]}],
    }
    return {
        "global": {"evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [job],
    }


def _written(file: Path, content: Mapping[str, Any]) -> Path:
    file.write_text(yaml.safe_dump(dict(content)), encoding="utf-8")
    return file


@contextmanager
def _running(program: str, *options: str, url: str) -> Iterator[None]:
    home = _home()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([home / "usr" / "bin" / program, *options], stdout=log, stderr=log, cwd=home)

        def output() -> str:
            log.seek(0)
            return log.read().decode(errors="replace")[-2000:]

        try:
            wait_until(lambda: _is_ready(process, url, output), what=f"{program} to be ready", shown=output)
            yield
        finally:
            process.kill()
            process.wait()


def _is_ready(process: subprocess.Popen[bytes], url: str, output: Callable[[], str]) -> bool:
    assert process.poll() is None, f"it ended with {process.returncode}: {output()}"
    try:
        return httpx2.get(url, timeout=5).status_code == 200
    except httpx2.TransportError:
        return False


@contextmanager
def _scraped(exporter: Exporter) -> Iterator[str]:
    """Host and port of a server with the page of an exporter."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = exporter.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
