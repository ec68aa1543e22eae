"""One command of each family as a process of its own, which ends as it does in the tests' process.

All other tests of commands run them in the tests' process (`support.commands`), but for those about what only a process
has: `up`, `demo`, `serve` and `stdio` (`test_up`, `test_demo`, `test_cli_stdio`), the signals of `console`
(`test_cli_console`), a `reembed` that is killed (`test_reembedding_process`), readers that leave early and terminals
(`test_cli_reading`, `test_cli_trace`), /dev/stdin (`test_cli_validate`), the working directory (`test_selecting`), and
what a command imports (`test_cli_commands`).
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from formulary_catalog.embedding import Embedder
from formulary_catalog.store.analytics.sessions import ROLE
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.commands import formulary, formulary_process
from support.databases import as_user, migrated_database
from support.impostor import answering
from support.manifest import text, workflow
from support.serving import load

NOWHERE = "http://127.0.0.1:9"
OUTPUT = "standard output"
ERROR = "standard error"


@pytest_asyncio.fixture(scope="module")
async def dsn(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """A database with one workflow, which no command of this module changes."""
    manifests = tmp_path_factory.mktemp("manifests")
    (manifests / "a.yaml").write_text(text(workflow("restart")))
    async with migrated_database(postgres) as address:
        await load([manifests], dsn=address, embedder=embedder)
        yield address


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("arguments", "code", "where", "saying"),
    [
        (["serch"], 2, ERROR, "did you mean search"),
        (["search", "-"], 0, OUTPUT, "restart@1.0.0"),
        (["query", "-"], 0, OUTPUT, "restart"),
        (["runbooks", "list"], 0, OUTPUT, "No runbooks are loaded"),
        (["validate", __file__], 1, OUTPUT, "invalid  "),
        (["invoke", "restart", "--url", NOWHERE], 3, ERROR, f"no server at {NOWHERE}"),
        (["governance", "contracts", "--json"], 0, OUTPUT, '"contracts"'),
        (["trace", "show", "none", "--json"], 1, ERROR, "trace 'none'"),
        (["migrate"], 0, OUTPUT, "is at revision"),
    ],
)
async def test_a_command_ends_in_a_process_as_it_does_here(
    dsn: str, arguments: list[str], code: int, where: str, saying: str
) -> None:
    typed = "restart" if arguments[0] == "search" else "select name from catalog"
    database = {"FORMULARY_DATABASE_URL": dsn, "FORMULARY_ANALYTICS_DATABASE_URL": as_user(dsn, ROLE)}
    process = await asyncio.to_thread(formulary_process, *arguments, typed=typed, **database)
    here = await formulary(*arguments, typed=typed, **database)
    assert process == here
    assert process.code == code
    assert saying in (process.out if where == OUTPUT else process.err)
    assert "Traceback" not in process.err


async def test_what_others_print_while_a_command_runs_is_not_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    async with answering(b'{"workflows": []}') as address:
        running = asyncio.create_task(formulary("list", "--url", address))
        while not running.done():
            print("of the test")
            await asyncio.sleep(0.01)
    done = await running
    assert "of the test" in capsys.readouterr().out
    assert "of the test" not in done.out + done.err
