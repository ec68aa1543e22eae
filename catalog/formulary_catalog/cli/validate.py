"""`formulary validate`: manifests checked without any server, for editors, hooks and pipelines."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.cli.options import json_option

if TYPE_CHECKING:
    from formulary_catalog.loading.documents import Document, Rejection

_NAMESPACE = "formulary"  # only tells names apart here


@dataclass(slots=True)
class _Verdict:
    """What is said about one file."""

    problems: list["Rejection"] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    workflows: int = 0
    incidents: int = 0
    contracts: int = 0


@click.command("validate")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="FILE|DIR...")
@json_option
def command(*, paths: tuple[Path, ...], as_json: bool) -> None:
    """Check manifests offline: workflows, incidents and governance contracts.

    Says for each file what is wrong with which field. Exit code 1 if any is invalid.

    \b
    Examples:
      formulary validate workflows/
      formulary validate oom.yaml crash.yaml --json
    """
    verdicts = _verdicts(paths)
    invalid = sum(1 for verdict in verdicts.values() if verdict.problems)
    if as_json:
        click.echo(json.dumps(_as_json(verdicts), ensure_ascii=False))
    else:
        _show(verdicts)
    if invalid or not verdicts:
        raise SystemExit(1)


def _verdicts(paths: tuple[Path, ...]) -> dict[str, _Verdict]:
    """By file, in the order in which a server would load them."""
    from formulary_catalog.loading.advice import advice
    from formulary_catalog.loading.documents import file_of, read_documents
    from formulary_catalog.loading.files import find_manifests
    from formulary_catalog.loading.manifests import sort_out

    found = find_manifests(paths)
    verdicts = {str(file.path): _Verdict() for file in found.files}
    documents: list[Document | Rejection] = [*found.rejections]
    for path in verdicts:
        documents += read_documents(Path(path), name=path)
    manifests = sort_out(documents, default_namespace=_NAMESPACE)
    for entry in (*manifests.served, *manifests.history):
        verdict = verdicts[file_of(entry.source)]
        verdict.workflows += 1
        verdict.warnings += [f"{entry.source}: {line}" for line in advice(entry)]
    for context in manifests.contexts:
        verdicts[file_of(context.source)].incidents += 1
    for contract in manifests.contracts:
        verdicts[file_of(contract.source)].contracts += 1
    for rejection in manifests.rejections:
        verdicts.setdefault(file_of(rejection.source), _Verdict()).problems.append(rejection)
    for note in manifests.notes:
        verdicts[file_of(note.source)].warnings.append(note.message)
    return verdicts


def _show(verdicts: dict[str, _Verdict]) -> None:
    from formulary_catalog.cli.terminal import Page, counted

    page = Page()
    for path, verdict in verdicts.items():
        if verdict.problems:
            page.line(f"invalid  {path}", style="bold red")
        else:
            page.line(f"ok       {path}  ({_contents(verdict)})")
        for rejection in verdict.problems:
            page.line(f"         {_local(rejection.message, path)}")
        for warning in verdict.warnings:
            page.line(f"         warning: {_local(warning, path)}", style="yellow")
    invalid = sum(1 for verdict in verdicts.values() if verdict.problems)
    warnings = sum(len(verdict.warnings) for verdict in verdicts.values())
    page.line()
    page.line(f"{len(verdicts) - invalid} valid, {invalid} invalid, {counted(warnings, 'warning')}", style="bold")
    if not verdicts:
        page.line("no manifests found; files must end in .yaml, .yml or .json")


def _contents(verdict: _Verdict) -> str:
    from formulary_catalog.cli.terminal import counted

    counts = ((verdict.workflows, "workflow"), (verdict.incidents, "incident"), (verdict.contracts, "contract"))
    return ", ".join(counted(number, noun) for number, noun in counts if number) or "nothing for us"


def _local(message: str, path: str) -> str:
    """The message without the file that stands above it."""
    return message.removeprefix(path).removeprefix(": ").lstrip()


def _as_json(verdicts: dict[str, _Verdict]) -> dict[str, object]:
    files = [
        {
            "file": path,
            "valid": not verdict.problems,
            "workflows": verdict.workflows,
            "incidents": verdict.incidents,
            "contracts": verdict.contracts,
            "problems": [
                {"source": problem.source, "field": problem.field, "message": problem.message}
                for problem in verdict.problems
            ],
            "warnings": verdict.warnings,
        }
        for path, verdict in verdicts.items()
    ]
    invalid = sum(1 for verdict in verdicts.values() if verdict.problems)
    return {"files": files, "valid": len(verdicts) - invalid, "invalid": invalid}
