"""When `make test` leaves most of a suite out: once it has passed as it is."""

import sys
from pathlib import Path

import pytest

from support.scripts import script

BROKEN = "tests.cluster.test_broken"
LIFECYCLE, SEARCH = "tests.cluster.test_lifecycle", "tests.integration.search.test_answers"


def _report(path: Path, *failed: str, passed: str = LIFECYCLE) -> Path:
    cases = [
        f'<testcase classname="{name}" name="t{number}"><failure/></testcase>' for number, name in enumerate(failed)
    ]
    cases.append(f'<testcase classname="{passed}" name="passed"/>')
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return path


@pytest.mark.parametrize(
    ("code", "failed", "passed"),
    [
        (0, [], True),
        (1, [SEARCH], True),
        (1, [SEARCH, LIFECYCLE], False),
        (1, [SEARCH] * 10, False),  # where as many fail, the run is stopped
        (2, [], False),
        (-11, [], False),
    ],
)
def test_it_has_passed_if_the_run_came_to_its_end_and_nothing_of_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, code: int, failed: list[str], passed: bool
) -> None:
    monkeypatch.setitem(sys.modules, "budget", script("budget"))
    assert script("test").passed("tests/cluster", _report(tmp_path / "report.xml", *failed), code=code) is passed


def test_it_has_not_passed_if_one_of_its_modules_could_not_be_imported_or_none_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "budget", script("budget"))
    report = _report(tmp_path / "report.xml")
    broken = f'<testsuite><testcase classname="" name="{BROKEN}"><error/></testcase>'
    report.write_text(report.read_text().replace("<testsuite>", broken))
    assert script("test").passed("tests/cluster", report, code=1) is False
    assert script("test").passed("tests/security/runs", _report(tmp_path / "other.xml"), code=0) is False
