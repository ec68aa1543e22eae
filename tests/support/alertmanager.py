"""A real Alertmanager on loopback, Debian's, and what sends it alerts as Prometheus does: a rule that is evaluated."""

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx2
import yaml

from support.control_plane import free_port
from support.toolcache import installed, run_installer
from support.waiting import wait_until

_VERSION = "0.25.0-1+b4"
_WITH_TEMPLATES = 'mount -t overlay overlay -o "lowerdir=$0/usr/share:/usr/share" /usr/share && exec "$@"'
"""Debian's Alertmanager reads its templates from /usr/share."""
_EVERY_SECONDS = 1.0
_FIRING_FOR = timedelta(minutes=4)
"""What Prometheus adds to now as the end of an alert that fires."""


@contextmanager
def alertmanager(webhook: str, *, token: str) -> Iterator[str]:
    """Its address, until the block ends. It sends every alert to this webhook, within seconds. Needs root."""
    package = installed(name=f"prometheus-alertmanager-{_VERSION}", install=_unpack)
    url = f"http://127.0.0.1:{free_port()}"
    receiver = {"url": webhook, "send_resolved": True, "http_config": {"authorization": {"credentials": token}}}
    intervals = {"group_wait": "1s", "group_interval": "2s", "repeat_interval": "1m"}
    configuration = {
        "route": {"receiver": "formulary", "group_by": ["alertname", "namespace"], **intervals},
        "receivers": [{"name": "formulary", "webhook_configs": [receiver]}],
    }
    with tempfile.TemporaryDirectory(prefix="formulary-alertmanager-") as place:
        settings, log = Path(place, "alertmanager.yml"), Path(place, "log")
        settings.write_text(yaml.safe_dump(configuration))
        options = [f"--config.file={settings}", f"--storage.path={place}/data", "--cluster.listen-address="]
        options.append(f"--web.listen-address={url.removeprefix('http://')}")
        program = (str(package / "usr" / "bin" / "prometheus-alertmanager"), *options)
        with log.open("wb") as output:
            apart = ("unshare", "--mount", "sh", "-c", _WITH_TEMPLATES, str(package))
            process = subprocess.Popen([*apart, *program], stdout=output, stderr=output)
        try:
            wait_until(lambda: _is_ready(url), what="Alertmanager to answer", shown=log.read_text)
            yield url
        finally:
            process.terminate()
            process.wait()


@contextmanager
def alerting(
    url: str, labels: Mapping[str, str], *, annotations: Mapping[str, str], fires: Callable[[], bool]
) -> Iterator[None]:
    """Evaluate a rule every second until the block ends, and send its alert to Alertmanager as Prometheus does."""
    over = Event()
    thread = Thread(target=_evaluate, args=(url, dict(labels), dict(annotations), fires, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def fingerprint(url: str, labels: Mapping[str, str]) -> str:
    """What Alertmanager calls the alert with these labels; empty while it has none."""
    found: list[dict[str, Any]] = httpx2.get(f"{url}/api/v2/alerts").json()
    return next((each["fingerprint"] for each in found if each["labels"] == labels), "")


def _evaluate(
    url: str, labels: Mapping[str, str], annotations: Mapping[str, str], fires: Callable[[], bool], over: Event
) -> None:
    since: datetime | None = None
    while not over.wait(_EVERY_SECONDS):
        now, firing = datetime.now(UTC), fires()
        if firing or since is not None:
            since = since or now
            ends = now + _FIRING_FOR if firing else now
            alert = {
                "labels": labels,
                "annotations": annotations,
                "startsAt": since.isoformat(),
                "endsAt": ends.isoformat(),
            }
            httpx2.post(f"{url}/api/v2/alerts", json=[alert]).raise_for_status()
        since = since if firing else None


def _is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/-/ready", timeout=5).status_code == 200
    except httpx2.TransportError:
        return False


def _unpack(home: Path) -> None:
    run_installer(["sh", "-c", f"cd '{home}' && apt-get download -qq prometheus-alertmanager={_VERSION}"])
    (package,) = home.glob("*.deb")
    run_installer(["dpkg", "-x", package, home])
    package.unlink()
