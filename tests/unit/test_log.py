"""Logs are one JSON object a line, or one readable line, and tracebacks show no values."""

import json
import subprocess
import sys

PROGRAM = """
import logging, structlog
from formulary_catalog.log import configure_logging
configure_logging(level={level!r}, as_json={as_json})
log = structlog.get_logger("formulary")
log.debug("details")
with structlog.contextvars.bound_contextvars(remediation_id="rr-1", trace_id="abc"):
    log.info("searched", mode="hybrid", line="a\\nb")
logging.getLogger("library").warning("from %s", "outside")
logging.getLogger("httpx2").info("chatter")
try:
    secret = "hunter" + "2"
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
"""


def logged(*, level: str, as_json: bool) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(level=level, as_json=as_json)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == ""
    return done.stderr


def test_a_serving_process_logs_json_with_the_ids_of_the_call() -> None:
    lines = [json.loads(line) for line in logged(level="info", as_json=True).splitlines()]
    assert [line["message"] for line in lines] == ["searched", "from outside", "failed"]
    searched = lines[0]
    assert (searched["remediation_id"], searched["trace_id"], searched["mode"]) == ("rr-1", "abc", "hybrid")
    assert (searched["level"], searched["logger"]) == ("info", "formulary")
    assert searched["timestamp"].endswith("Z")
    assert "remediation_id" not in lines[1]
    assert "ZeroDivisionError" in lines[2]["exception"]
    assert "hunter2" not in json.dumps(lines)


def test_a_person_reads_lines() -> None:
    text = logged(level="info", as_json=False)
    assert "searched" in text
    assert "remediation_id=rr-1" in text
    assert "line='a\\nb'" in text
    assert "ZeroDivisionError" in text
    assert "hunter2" not in text
    assert "\x1b" not in text


def test_the_level_decides_what_is_logged() -> None:
    assert "details" in logged(level="debug", as_json=True)
    assert "searched" not in logged(level="warning", as_json=True)
    assert "outside" not in logged(level="error", as_json=True)
