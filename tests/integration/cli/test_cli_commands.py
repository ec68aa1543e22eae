"""The command line as a whole: help, versions, wrong usage, and what it costs to start."""

import json
import subprocess
import sys

import pytest

from formulary_catalog import __version__
from support.commands import formulary, formulary_now

COMMANDS = tuple(
    "up demo serve migrate stdio search show list select related find impact stats explain context coverage stale "
    "duplicates query tables docs runbooks invoke invocation console approvals approve reject governance halt resume "
    "incident validate draft test export trace reembed doctor new who-sees".split()
)
TRACE_COMMANDS = ("list", "show", "verify", "checkpoint", "keygen", "export", "hold", "release", "expire")
PROGRAM = """
import sys
from formulary_catalog.edges.cli import main
try:
    main({arguments!r}, standalone_mode=False)
except SystemExit:
    pass
heavy = {{"mcp", "fastapi", "uvicorn", "openvino", "alembic", "sqlalchemy", "asyncpg", "torch", *{others!r}}}
print("\\n" + ",".join(sorted(heavy & sys.modules.keys())))
"""


def imported(arguments: list[str], *, others: tuple[str, ...] = ()) -> str:
    """Which of the heavy packages a command has loaded."""
    program = PROGRAM.format(arguments=arguments, others=others)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()[-1]


def test_the_help_lists_every_command() -> None:
    done = formulary_now("--help")
    assert (done.code, done.err) == (0, "")
    listed = [line.split()[0] for line in done.out.partition("\nStart:\n")[2].splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(COMMANDS)


@pytest.mark.parametrize("command", [[name] for name in COMMANDS] + [["trace", name] for name in TRACE_COMMANDS])
def test_each_command_has_help_with_an_example(command: list[str]) -> None:
    done = formulary_now(*command, "--help")
    assert (done.code, done.err) == (0, "")
    assert "Example" in done.out
    assert "formulary" in done.out.partition("Example")[2]


def test_the_version_is_that_of_the_package() -> None:
    assert formulary_now("--version").out.startswith(f"formulary, version {__version__}\nschema ")


@pytest.mark.parametrize("arguments", [["serch"], ["search"], ["up", "--porte", "1"], ["show"]])
def test_wrong_usage_ends_with_two_and_the_usage(arguments: list[str]) -> None:
    done = formulary_now(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: formulary")


async def test_a_misspelt_command_is_answered_with_the_nearest() -> None:
    done = await formulary("serch", "x")
    assert done.code == 2
    assert "There is no command 'serch'; did you mean search" in done.err
    for group, misspelt, meant in (
        ("governance", "evalute", "evaluate"),
        ("docs", "serch", "search"),
        ("runbooks", "lod", "load"),
        ("trace", "shw", "show"),
        ("export", "skil", "skill"),
    ):
        inner = await formulary(group, misspelt)
        assert inner.code == 2
        assert f"There is no command {misspelt!r}; did you mean {meant}" in inner.err
    tool = await formulary("governance", "gat")  # a tool that is no command
    assert "There is no command 'gat'; its commands are contracts, evaluate" in tool.err
    other = await formulary("zzzzzz")
    assert "`formulary --help` lists all commands." in other.err


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (["search", "--json"], "Missing argument 'QUERY...'"),
        (["search", "x", "--top-k", "abc", "--json"], "'abc' is not a valid integer"),
        (["list", "--json", "--porte", "1"], "No such option"),
    ],
)
def test_wrong_usage_is_told_as_json_where_that_is_asked_for(arguments: list[str], saying: str) -> None:
    done = formulary_now(*arguments)
    error = json.loads(done.out)["error"]
    assert (done.code, error["code"]) == (2, -32002)
    assert saying in error["message"]
    assert done.err.startswith("Usage: formulary")


def test_help_and_validation_load_nothing_heavy() -> None:
    assert imported(["--help"], others=("pydantic", "rich", "numpy", "httpx2")) == ""
    assert imported(["validate", __file__], others=("numpy", "httpx2")) == ""


def test_asking_a_server_loads_neither_model_nor_database() -> None:
    assert imported(["list", "--url", "http://127.0.0.1:9"], others=("numpy",)) == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["halt", "--raeson", "x"], "No such option '--raeson'. Did you mean '--reason'?"),
        (["stale", "--lim", "5"], "No such option '--lim'. Did you mean '--limit'?"),
        (["list", "--risk-level", "low"], "No such option '--risk-level'. Did you mean '--risk'?"),
        (["trace", "list", "--lmit", "5"], "No such option '--lmit'. Did you mean '--limit'?"),
        (["search", "x", "--unlike"], "No such option '--unlike'."),
    ],
)
def test_a_misspelt_option_is_answered_with_close_ones_alone(arguments: list[str], said: str) -> None:
    done = formulary_now(*arguments)
    assert done.code == 2
    assert done.err.endswith(f"Error: {said}\n")
