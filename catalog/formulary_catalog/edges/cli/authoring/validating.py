"""`formulary validate`: manifests checked offline, for people, editors and CI.

What is wrong is found by `loading/manifests`, as a server finds it; `findings` writes it for other programs.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import json_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formulary_catalog.edges.cli.authoring.findings import Finding
    from formulary_catalog.loading.documents import ManifestDocument, Rejection

_NAMESPACE = "formulary"  # only distinguishes names here
_MAX_SHOWN = 100
_STANDARD_INPUT = Path("/dev/stdin")


@dataclass(slots=True)
class _Verdict:
    """What is said about one file."""

    problems: list["Rejection"] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    documents: int = 0
    workflows: int = 0
    incidents: int = 0
    contracts: int = 0
    sources: int = 0

    @property
    def valid(self) -> bool | None:
        """Whether what it holds is valid; None where nothing in it is checked."""
        if self.problems:
            return False
        return None if len(self.skipped) == self.documents else True


@click.command("validate")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, allow_dash=True, path_type=Path),
    metavar="FILE|DIR|-...",
)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option("--quiet", is_flag=True, help="Only files with something wrong; not what is valid or skipped.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["github", "sarif", "json"]),
    help="github: annotations of a pull request; sarif: for code scanning; json: as --json.",
)
@json_option
def validate_command(*, paths: tuple[Path, ...], strict: bool, quiet: bool, form: str | None, as_json: bool) -> None:
    """Check manifests offline: workflows, incidents and governance contracts. - reads standard input.

    Reports all that is wrong, by file and field. Documents of other kinds are skipped, and named. A misspelt kind is
    invalid, and so is a file without a document. Exit code 1 if any file is invalid, or none is valid.

    \b
    Examples:
      formulary validate workflows/
      formulary validate oom.yaml crash.yaml --json
      kustomize build overlays/production | formulary validate -
      formulary validate workflows/ --strict --quiet --format github         # in CI
    """
    from formulary_catalog.edges.cli.authoring.findings import as_sarif, github_lines

    verdicts = _verdicts(paths)
    if as_json or form == "json":
        click.echo(json.dumps(_as_json(verdicts)))  # names of files may hold anything
    elif form == "sarif":
        click.echo(json.dumps(as_sarif(_findings(verdicts))))
    elif form == "github":
        for line in github_lines(_findings(verdicts)):
            click.echo(line)
    else:
        _show(verdicts, quiet=quiet)
    judged = [verdict.valid for verdict in verdicts.values()]
    warned = any(verdict.warnings for verdict in verdicts.values())
    if False in judged or True not in judged or (strict and warned):
        raise SystemExit(1)


def _verdicts(paths: tuple[Path, ...]) -> dict[str, _Verdict]:
    """By file, in the order in which a server would load them."""
    from formulary_catalog.loading.advice import advice, contract_advice
    from formulary_catalog.loading.documents import file_of, read_documents, rejected
    from formulary_catalog.loading.files import find_manifests
    from formulary_catalog.loading.manifests import sort_out

    given = [_STANDARD_INPUT if path == Path("-") else path for path in paths]
    streams = [path for path in given if not (path.is_file() or path.is_dir())]  # such as a pipe, to be read once
    found = find_manifests(path for path in given if path not in streams)
    verdicts = {str(path): _Verdict() for path in (*streams, *(file.path for file in found.files))}
    documents: list[ManifestDocument | Rejection] = [*found.rejections]
    for path in verdicts:
        read = read_documents(Path(path), name=path)
        verdicts[path].documents = len(read)
        documents += read or [rejected("holds no document; write a manifest, or remove the file", file=path)]
    manifests = sort_out(documents, default_namespace=_NAMESPACE)
    for entry in (*manifests.served, *manifests.history):
        verdict = verdicts[file_of(entry.source)]
        verdict.workflows += 1
        verdict.warnings += [f"{entry.source}: {line}" for line in advice(entry)]
    for context in manifests.contexts:
        verdicts[file_of(context.source)].incidents += 1
    for contract in manifests.contracts:
        verdict = verdicts[file_of(contract.source)]
        verdict.contracts += 1
        verdict.warnings += [f"{contract.source}: {line}" for line in contract_advice(contract.contract)]
    for sender in manifests.sources:
        verdicts[file_of(sender.source)].sources += 1
    for rejection in manifests.rejections:
        verdicts.setdefault(file_of(rejection.source), _Verdict()).problems.extend(rejection.one_by_one)
    for note in manifests.notes:
        verdicts[file_of(note.source)].warnings.append(note.message)
    for document in manifests.ignored:
        verdicts[file_of(document.source)].skipped.append(f"{document.source}: {_unchecked(document)}")
    return verdicts


def _unchecked(document: "ManifestDocument") -> str:
    """Why a document is not checked."""
    kind, api_version = document.content.get("kind"), document.content.get("apiVersion")
    if not kind:
        return "has no kind, so it is no manifest"
    named = f"{kind} ({api_version})" if api_version else str(kind)
    return f"kind {named[:_MAX_SHOWN]} is not checked"


def _findings(verdicts: dict[str, _Verdict]) -> "Iterator[Finding]":
    from formulary_catalog.edges.cli.authoring.findings import Finding

    for path, verdict in verdicts.items():
        for problem in verdict.problems:
            yield Finding.of(problem.message, path=path, source=problem.source, field=problem.field, is_error=True)
        for warning in verdict.warnings:
            yield Finding.of(warning, path=path, source=warning.partition(": ")[0])


def _show(verdicts: dict[str, _Verdict], *, quiet: bool) -> None:
    from formulary_catalog.domain.text import one_line
    from formulary_catalog.runtime.terminal import Page, counted

    page = Page()
    for path, verdict in verdicts.items():
        if quiet and not (verdict.problems or verdict.warnings):
            continue
        if verdict.valid is None:
            page.line(f"skipped  {one_line(path)}", style="yellow")
        elif verdict.problems:
            page.line(f"invalid  {one_line(path)}", style="bold red")
        else:
            page.line(f"ok       {one_line(path)}  ({_contents(verdict)})")
        for rejection in verdict.problems:
            page.line(f"         {one_line(_local(rejection.message, path))}")
        for skipped in verdict.skipped if not quiet else ():
            page.line(f"         skipped: {one_line(_local(skipped, path))}", style="yellow")
        for warning in verdict.warnings:
            page.line(f"         warning: {one_line(_local(warning, path))}", style="yellow")
    totals = _totals(verdicts)
    warnings = sum(len(verdict.warnings) for verdict in verdicts.values())
    skipped = f"{totals['skipped']} skipped, " if totals["skipped"] else ""
    page.line()
    page.line(
        f"{totals['valid']} valid, {totals['invalid']} invalid, {skipped}{counted(warnings, 'warning')}", style="bold"
    )
    if not verdicts:
        page.line("no manifests found; files must end in .yaml, .yml or .json")


def _contents(verdict: _Verdict) -> str:
    from formulary_catalog.runtime.terminal import counted

    counts = (
        (verdict.workflows, "workflow"),
        (verdict.incidents, "incident"),
        (verdict.contracts, "contract"),
        (verdict.sources, "incident source"),
    )
    return ", ".join(counted(number, noun) for number, noun in counts if number) or "nothing new"


def _local(message: str, path: str) -> str:
    """The message without the file that stands above it."""
    return message.removeprefix(path).removeprefix(": ").lstrip()


def _as_json(verdicts: dict[str, _Verdict]) -> dict[str, object]:
    files = [
        {
            "file": path,
            "valid": verdict.valid,
            "workflows": verdict.workflows,
            "incidents": verdict.incidents,
            "contracts": verdict.contracts,
            "sources": verdict.sources,
            "problems": [
                {"source": problem.source, "field": problem.field, "message": problem.message}
                for problem in verdict.problems
            ],
            "warnings": verdict.warnings,
            "skipped": verdict.skipped,
        }
        for path, verdict in verdicts.items()
    ]
    return {"files": files, **_totals(verdicts)}


def _totals(verdicts: dict[str, _Verdict]) -> dict[str, int]:
    """How many files are how."""
    judged = [verdict.valid for verdict in verdicts.values()]
    return {"valid": judged.count(True), "invalid": judged.count(False), "skipped": judged.count(None)}
