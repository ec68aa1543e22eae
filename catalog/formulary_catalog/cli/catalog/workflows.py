"""`formulary search`, `show` and `validate`: what a person asks of workflows."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.cli.options import by_dimension, json_option, label_option
from formulary_catalog.cli.targets import CatalogTarget, target_options
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.loading.documents import Document, Rejection

_NAMESPACE = "formulary"  # only distinguishes names here


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@label_option
@click.option(
    "--exclude",
    "excluded",
    multiple=True,
    metavar="WORD",
    help="Leave out workflows that contain this word; separate several by commas.",
)
@click.option("--top-k", type=int, metavar="N", help="Number of results, 1 to 50. Default: at most 10, those that fit.")
@click.option(
    "--min-confidence", type=float, default=0.0, metavar="X", help="Leave out results below this confidence, 0 to 1."
)
@target_options
@json_option
def search_command(
    *,
    query: tuple[str, ...],
    labels: tuple[str, ...],
    excluded: tuple[str, ...],
    top_k: int | None,
    min_confidence: float,
    target: CatalogTarget,
    as_json: bool,
) -> None:
    """Search the catalog as an agent would.

    QUERY is "<signal type> <severity> [words]", or plain language.

    \b
    Examples:
      formulary search "OOMKilled critical"
      formulary search "pods stuck pulling images" --label environment=production
      formulary search OOMKilled --label priority=P0 --label priority=P1 --exclude restart --json
    """
    from formulary_catalog.cli.catalog.rendering import show_search
    from formulary_catalog.domain.search.request import ContextReference, search_request
    from formulary_catalog.runtime.terminal import Page

    request = search_request(
        query=" ".join(query),
        labels=by_dimension(labels),
        exclude_keywords=[word for given in excluded for word in given.split(",")],
        min_confidence=min_confidence,
        top_k=top_k,
        context=ContextReference(remediation_id=target.remediation_id),
    )
    answer = target.ask(lambda catalog: catalog.search(request), by_meaning=True)
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_search(answer, query=request.query, page=Page())
    if not answer.workflows:
        raise SystemExit(1)


@click.command("show")
@click.argument("workflow_id", metavar="ID")
@click.option("--version", default="", metavar="VERSION", help="Version to use instead of the served one.")
@click.option("--section", default="", metavar="SECTION", help="One section alone, such as steps or when-not-to-use.")
@click.option("--against", default="", metavar="VERSION", help="Compare with this version, line by line.")
@target_options
@json_option
def show_command(
    *, workflow_id: str, version: str, section: str, against: str, target: CatalogTarget, as_json: bool
) -> None:
    """Show all of one workflow, one section of it, or what differs between two of its versions.

    ID is name, namespace/name, name@version or wf_ver_….

    \b
    Examples:
      formulary show oom-raise-memory-limit
      formulary show oom-raise-memory-limit@1.0.0 --json
      formulary show oom-raise-memory-limit --section steps
      formulary show oom-raise-memory-limit --against 1.0.0
    """
    from formulary_catalog.cli.catalog.browsing_pages import show_difference
    from formulary_catalog.cli.catalog.rendering import show_details, show_section
    from formulary_catalog.domain.workflows.identity import parse_reference
    from formulary_catalog.domain.workflows.requests import section_request
    from formulary_catalog.runtime.terminal import Page

    reference = parse_reference(workflow_id, version=version)
    if against:
        if section or target.remediation_id:
            raise InvalidInput(
                "--against compares whole manifests, whatever an incident demands; leave out --section and "
                "--remediation-id",
                field="against",
            )
        difference = target.ask(lambda catalog: catalog.difference(str(reference), against))
        if as_json:
            click.echo(difference.model_dump_json())
        else:
            show_difference(difference, page=Page())
        return
    if section:
        asked = section_request(workflow_id=str(reference), section=section)
        answer = target.ask(lambda catalog: catalog.section(*asked, remediation_id=target.remediation_id))
        if as_json:
            click.echo(answer.model_dump_json())
        else:
            show_section(answer, page=Page())
        return
    details = target.ask(
        lambda catalog: catalog.details(workflow_id, version=version, remediation_id=target.remediation_id)
    )
    if as_json:
        click.echo(details.model_dump_json())
    else:
        show_details(details, page=Page())


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
def validate_command(*, paths: tuple[Path, ...], as_json: bool) -> None:
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
        click.echo(json.dumps(_as_json(verdicts)))  # names of files may hold anything
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
    from formulary_catalog.domain.text import one_line
    from formulary_catalog.runtime.terminal import Page, counted

    page = Page()
    for path, verdict in verdicts.items():
        if verdict.problems:
            page.line(f"invalid  {one_line(path)}", style="bold red")
        else:
            page.line(f"ok       {one_line(path)}  ({_contents(verdict)})")
        for rejection in verdict.problems:
            page.line(f"         {one_line(_local(rejection.message, path))}")
        for warning in verdict.warnings:
            page.line(f"         warning: {one_line(_local(warning, path))}", style="yellow")
    invalid = sum(1 for verdict in verdicts.values() if verdict.problems)
    warnings = sum(len(verdict.warnings) for verdict in verdicts.values())
    page.line()
    page.line(f"{len(verdicts) - invalid} valid, {invalid} invalid, {counted(warnings, 'warning')}", style="bold")
    if not verdicts:
        page.line("no manifests found; files must end in .yaml, .yml or .json")


def _contents(verdict: _Verdict) -> str:
    from formulary_catalog.runtime.terminal import counted

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
