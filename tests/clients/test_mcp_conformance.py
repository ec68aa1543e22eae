"""The server conforms to each protocol revision that clients in use speak (DESIGN section 7)."""

import socket

import pytest

from support.conformance import SCENARIOS, run_scenario

# The first run on a machine also installs the suite.
pytestmark = pytest.mark.timeout(900)

APPLICABLE = [
    pytest.param(revision, scenario, marks=[pytest.mark.smoke] if scenario == "tools-list" else [])
    for revision, scenarios in SCENARIOS.items()
    for scenario in scenarios
]


@pytest.mark.parametrize(("revision", "scenario"), APPLICABLE)
def test_the_server_conforms(revision: str, scenario: str, formulary_url: str) -> None:
    checks = run_scenario(url=f"{formulary_url}/mcp", revision=revision, scenario=scenario)

    assert [check for check in checks if check.ran]
    assert [check for check in checks if check.status in {"FAILURE", "WARNING"}] == []


@pytest.mark.parametrize("revision", SCENARIOS)
def test_a_server_that_is_not_there_does_not_conform(revision: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        checks = run_scenario(url=f"http://127.0.0.1:{port}/mcp", revision=revision, scenario="tools-list")

    assert [check.status for check in checks if check.ran] == ["FAILURE"]
