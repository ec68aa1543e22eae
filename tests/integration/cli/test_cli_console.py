"""`formulary console`, with a stand-in for kubectl."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.kubectl_stand_in import stand_in

PROGRAM = """
import signal

from formulary_catalog.edges.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it, and children inherit that
main()
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What the stand-in was called with; it is alone on the PATH with the shell's own programs."""
    return stand_in(tmp_path)


def console(log: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "console", *arguments],
        env=_environment(log.parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_says_where_the_console_is_and_hands_a_token_over(log: Path) -> None:
    with console(log, "--service-account", "shop/oncall", "--context", "prod") as process:
        assert process.stdout is not None
        said = [line.strip() for line in iter(process.stdout.readline, "Ctrl-C closes it\n")]
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=20)

    assert (said[0], code) == ("console: http://127.0.0.1:40123/console", 0)
    assert "a.token.of-it" in said
    made, _, forwarded = log.read_text().splitlines()
    assert made == "--context=prod create token oncall --namespace=shop --audience=formulary --duration=1h"
    assert forwarded.endswith("port-forward --namespace=formulary --address=127.0.0.1 service/formulary :http")


def test_a_server_with_a_certificate_is_reached_by_https(log: Path) -> None:
    with console(log, "--service", "secured") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "console: https://127.0.0.1:40123/console\n"
        process.send_signal(signal.SIGINT)


def test_kubectl_may_report_any_number_of_connections(log: Path) -> None:
    with console(log, "--service", "busy") as process:
        _, error = process.communicate(timeout=30)

    assert process.returncode == 3
    assert "kubectl no longer forwards the port" in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--service-account", "shop/nobody"], '"nobody" not found'),
        (["--service", "absent"], '"absent" not found'),
        (["--service-account", "oncall"], "'oncall' is not NAMESPACE/NAME"),
    ],
)
def test_what_kubectl_refuses_is_repeated(log: Path, arguments: list[str], said: str) -> None:
    with console(log, *arguments) as process:
        _, error = process.communicate(timeout=30)

    assert process.returncode in (2, 3)
    assert said in error


def test_without_kubectl_it_says_so(tmp_path: Path) -> None:
    with console(tmp_path / "log") as process:
        _, error = process.communicate(timeout=30)

    assert process.returncode == 3
    assert "there is no kubectl on the PATH" in error


def _environment(path: Path) -> Mapping[str, str]:
    return {**os.environ, "PATH": f"{path}:/bin"} if (path / "kubectl").exists() else {**os.environ, "PATH": str(path)}
