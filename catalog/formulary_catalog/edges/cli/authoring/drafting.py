"""`formulary draft` and `formulary test`: what authors of workflows begin with, and what they end with."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import json_option, settings_of
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.loading.expectations import ExpectedIn
    from formulary_catalog.settings import Settings


@click.command("draft")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
def draft_command(*, file: Path) -> None:
    """Draft a workflow from a runbook, a skill, an SSM document or a Rundeck job, and print it.

    Reads Markdown (runbooks, SKILL.md), runbook files of HolmesGPT, documents of AWS Systems Manager with mainSteps and
    Rundeck jobs, in YAML or JSON. Sections and commands become fields and steps, placeholders parameters. The draft is
    suspended: it is not served until you have decided what its comments ask and removed `suspend`.

    \b
    Examples:
      formulary draft runbooks/disk-full.md >workflows/disk-full.yaml
      formulary draft skills/pending-pods/SKILL.md
    """
    from formulary_catalog.loading.drafting import drafts_of_file

    click.echo(drafts_of_file(file), nl=False)


@click.command("test")
@click.argument(
    "directories",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR...",
)
@json_option
def test_command(*, directories: tuple[Path, ...], as_json: bool) -> None:
    """Test that searches find the workflows of directories, as their *.test.yaml files expect.

    Each test has a name, a query, and what it must find: `first`, `among` the hits, `never` among them. `labels`,
    `customLabels` and `detectedLabels` are what an incident would demand. `target` names an object in the same
    directories instead, and its labels count. The workflows are loaded into a database of their own, which is removed
    at the end. Exit code 1 if a test fails or a manifest is invalid.

    \b
    Examples:
      formulary test workflows/
      formulary test workflows/ team/ --json
    """
    from formulary_catalog.log import configure_logging
    from formulary_catalog.runtime.process import INTERRUPTED, run_until_stopped
    from formulary_catalog.settings import ContextPolicy

    configure_logging(level="warning", as_json=False)
    tested: list[tuple[ExpectedIn, list[str]]] = []
    with TemporaryDirectory(prefix="formulary-test-", ignore_cleanup_errors=True) as directory:
        settings = settings_of(
            data_dir=Path(directory) / "data", database_url="", request_context=ContextPolicy.OPTIONAL
        )
        run_until_stopped(lambda: _test(settings, directories, tested), if_cancelled=INTERRUPTED)
    if as_json:
        click.echo(json.dumps(_as_json(tested)))
    else:
        _show(tested)
    if any(failed for _, failed in tested):
        raise SystemExit(1)


async def _test(
    settings: "Settings", directories: Sequence[Path], tested: "list[tuple[ExpectedIn, list[str]]]"
) -> None:
    """Load the workflows and ask for each expectation what it says.

    Raises:
        InvalidInput: a manifest or a test is invalid, or there is no test.
        StartupError, Unavailable: something needed is not to be had.
    """
    from formulary_catalog.edges.calls.caller import LOCAL
    from formulary_catalog.loading.expectations import expectations_in, failures
    from formulary_catalog.operations.services import Services
    from formulary_catalog.runtime.databases import with_local_parts
    from formulary_catalog.runtime.display import Display
    from formulary_catalog.runtime.process import hurry_on_signals
    from formulary_catalog.runtime.standalone import standalone

    with Display() as display:
        async with standalone(settings, manifests=directories, display=display) as catalog:
            try:
                report = await catalog.load(display=display)
                if report.rejections:
                    raise InvalidInput(report.rejections[0].message, field="directories")
                loaded = {each.rpartition("@")[0].rpartition("/")[2] for each in report.created}
                expected = expectations_in(directories, workflows=loaded)
                if not expected:
                    raise InvalidInput("there is no *.test.yaml file with tests; write one", field="directories")
                display.close()
                searches = Services.on(catalog.parts, settings=with_local_parts(settings)).catalog
                for each in expected:
                    answer = await searches.search(each.expectation.request, caller=LOCAL)
                    tested.append((each, [*failures(each.expectation, answer)]))
            finally:
                hurry_on_signals()


def _show(tested: "Sequence[tuple[ExpectedIn, list[str]]]") -> None:
    from formulary_catalog.domain.text import one_line
    from formulary_catalog.runtime.terminal import Page, counted

    page = Page()
    for each, failed in tested:
        for line in failed:
            page.line(f"failed   {one_line(each.file)}: {one_line(each.expectation.name)}", style="bold red")
            page.line(f"         {one_line(line)}")
    number = sum(bool(failed) for _, failed in tested)
    page.line(f"{counted(len(tested), 'test')}, {number} failed", style="bold")


def _as_json(tested: "Sequence[tuple[ExpectedIn, list[str]]]") -> dict[str, object]:
    tests = [{"file": each.file, "name": each.expectation.name, "failures": failed} for each, failed in tested]
    return {"tests": tests, "failed": sum(bool(failed) for _, failed in tested)}
