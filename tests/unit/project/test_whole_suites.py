"""When `make test` leaves most of a module of a suite out: once it has passed as it is."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from support.scripts import script

LEASE, LIFECYCLE = "tests/cluster/test_lease.py", "tests/cluster/test_lifecycle.py"
CASES = {LEASE: "tests.cluster.test_lease", LIFECYCLE: "tests.cluster.test_lifecycle"}
OTHER = "tests.integration.search.test_answers"


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`scripts/test.py`."""
    monkeypatch.setitem(sys.modules, "budget", script("budget"))
    return script("test")


def _report(path: Path, *failed: str) -> Path:
    """Of a run in which tests of these modules failed; a module that cannot be imported is a case without a class."""
    cases = [
        f'<testcase classname="{name}" name="t{number}"><failure/></testcase>' for number, name in enumerate(failed)
    ]
    cases += [f'<testcase classname="{name}" name="passed"/>' for name in (*CASES.values(), OTHER)]
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return path


@pytest.mark.parametrize(
    ("code", "failed", "passing"),
    [
        (0, [], {LEASE, LIFECYCLE}),
        (1, [OTHER], {LEASE, LIFECYCLE}),
        (1, [OTHER, CASES[LIFECYCLE]], {LEASE}),
        (1, [OTHER] * 10, set()),  # where as many fail, the run is stopped
        (2, [], set()),
        (-11, [], set()),
    ],
)
def test_it_has_passed_if_the_run_came_to_its_end_and_nothing_of_it_failed(
    tmp_path: Path, runner: ModuleType, *, code: int, failed: list[str], passing: set[str]
) -> None:
    assert runner.passing(CASES, _report(tmp_path / "report.xml", *failed), code=code) == passing


@pytest.mark.parametrize(
    ("broken", "passing"),
    [(CASES[LEASE], {LIFECYCLE}), ("tests.cluster", set()), ("tests.clust", {LEASE, LIFECYCLE})],
    ids=["module", "conftest of its folder", "another folder"],
)
def test_it_has_not_passed_if_it_or_its_folder_could_not_be_imported(
    tmp_path: Path, runner: ModuleType, *, broken: str, passing: set[str]
) -> None:
    report = _report(tmp_path / "report.xml")
    case = f'<testsuite><testcase classname="" name="{broken}"><error/></testcase>'
    report.write_text(report.read_text().replace("<testsuite>", case))

    assert runner.passing(CASES, report, code=1) == passing


def test_a_change_concerns_its_own_module_or_where_it_is_shared_or_a_source_all_of_them(
    tmp_path: Path, runner: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = {"tests": "tests/cluster", "sources": ["operator"]}
    files = {name: tmp_path / name for name in (LEASE, LIFECYCLE, "tests/cluster/conftest.py", "operator/lease.py")}
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("before")
    monkeypatch.setattr(runner, "ROOT", tmp_path)

    def changed_with(name: str) -> set[str]:
        before = runner.stamps_of_modules(suite)
        files[name].write_text("after")
        after = runner.stamps_of_modules(suite)
        return {module for module in after if after[module] != before[module]}

    assert changed_with(LEASE) == {LEASE}
    assert changed_with("tests/cluster/conftest.py") == {LEASE, LIFECYCLE}
    assert changed_with("operator/lease.py") == {LEASE, LIFECYCLE}
