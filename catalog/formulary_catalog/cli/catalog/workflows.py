"""`formulary search`, `show`, `select` and `validate`: what a person asks of workflows."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.cli.options import json_option, label_arguments, label_option, narrowing_options
from formulary_catalog.cli.targets import CatalogTarget, target_options
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.domain.answers.catalog import SelectionReceipt
    from formulary_catalog.loading.documents import ManifestDocument, Rejection

_NAMESPACE = "formulary"  # only distinguishes names here
_MAX_SHOWN = 100
_STANDARD_INPUT = Path("/dev/stdin")


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@label_option
@narrowing_options
@click.option(
    "--exclude",
    "exclude_keywords",
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
    action_type: str,
    namespace: str,
    keywords: tuple[str, ...],
    exclude_keywords: tuple[str, ...],
    top_k: int | None,
    min_confidence: float,
    target: CatalogTarget,
    as_json: bool,
) -> None:
    """Search the catalog as an agent would.

    QUERY is "<signal type> <severity> [words]", plain language, or what kubectl or Alertmanager printed, up to 4,000
    characters. - reads it from standard input.

    \b
    Examples:
      formulary search "OOMKilled critical"
      kubectl get events | tail -n 20 | formulary search -
      formulary search "pods stuck pulling images" --label environment=production
      formulary search OOMKilled --label priority=P0 --label priority=P1 --exclude restart --json
    """
    from formulary_catalog.cli.catalog.rendering import show_search
    from formulary_catalog.domain.search.request import ContextReference
    from formulary_catalog.runtime.terminal import Page
    from formulary_catalog.server.calls.searching import search_request_of
    from formulary_catalog.server.rest.search import SearchBody

    asked = SearchBody.read(
        {
            "query": sys.stdin.read() if query == ("-",) else " ".join(query),
            "exclude_keywords": list(exclude_keywords),
            "min_confidence": min_confidence,
            "top_k": top_k,
            "action_type": action_type,
            "namespace": namespace,
            "keywords": list(keywords),
            **label_arguments(labels),
        }
    )
    request = search_request_of(asked, context=ContextReference(remediation_id=target.remediation_id))
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
      formulary show oom-raise-memory-limit@1.0.1 --json
      formulary show oom-raise-memory-limit --section steps
      formulary show oom-raise-memory-limit --against 1.0.0
    """
    from formulary_catalog.cli.catalog.browsing_pages import show_difference
    from formulary_catalog.cli.catalog.rendering import show_details, show_section
    from formulary_catalog.domain.workflows.identity import parse_reference
    from formulary_catalog.runtime.terminal import Page
    from formulary_catalog.server.calls.arguments.browsing import SectionArguments

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
        asked = SectionArguments.read({"workflow_id": str(reference), "section": section})
        answer = target.ask(
            lambda catalog: catalog.section(asked.workflow_id, asked.section, remediation_id=target.remediation_id)
        )
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


@click.command("select")
@click.argument("workflow_id", metavar="WORKFLOW")
@click.option("--reasoning", required=True, metavar="TEXT", help="Why it fits the root cause better than the others.")
@click.option("--search-id", default="", metavar="ID", help="The search that found it: search_id of `search --json`.")
@click.option("--version", default="", metavar="VERSION", help="Version to use instead of the served one.")
@click.option("--confidence", type=float, metavar="X", help="How sure you are of the choice, 0 to 1.")
@target_options
@json_option
def select_command(
    *,
    workflow_id: str,
    reasoning: str,
    search_id: str,
    version: str,
    confidence: float | None,
    target: CatalogTarget,
    as_json: bool,
) -> None:
    """Record which workflow was chosen and why, into the audit trail; nothing is run.

    WORKFLOW is name, namespace/name, name@version or wf_ver_…. `formulary trace show` tells the choice afterwards.

    \b
    Examples:
      formulary select oom-raise-memory-limit --reasoning "The limit is the only cap."
      formulary select oom-scale-out --reasoning "Load has doubled." --remediation-id rr-2026-0042 --confidence 0.9
    """
    from formulary_catalog.server.calls.arguments.catalog import SelectionArguments

    given = {
        "workflow_id": workflow_id,
        "version": version,
        "reasoning": reasoning,
        "search_id": search_id,
        "confidence": confidence,
    }
    chosen = SelectionArguments.read(given)
    receipt = target.ask(lambda catalog: catalog.select(chosen, remediation_id=target.remediation_id))
    if as_json:
        click.echo(receipt.model_dump_json())
    else:
        _show_receipt(receipt)


def _show_receipt(receipt: "SelectionReceipt") -> None:
    from formulary_catalog.cli.wording import notes_as_typed
    from formulary_catalog.runtime.terminal import Page

    page = Page()
    page.line(f"recorded: {receipt.workflow_id}@{receipt.version}", style="bold")
    page.pair("version", receipt.version_id)
    page.pair("search", receipt.search_id)
    page.notes(notes_as_typed(receipt.notes))


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
@json_option
def validate_command(*, paths: tuple[Path, ...], as_json: bool) -> None:
    """Check manifests offline: workflows, incidents and governance contracts. - reads standard input.

    Reports all that is wrong, by file and field. Documents of other kinds are skipped, and named. A misspelt kind is
    invalid, and so is a file without a document. Exit code 1 if any file is invalid, or none is valid.

    \b
    Examples:
      formulary validate workflows/
      formulary validate oom.yaml crash.yaml --json
      kustomize build overlays/production | formulary validate -
    """
    verdicts = _verdicts(paths)
    if as_json:
        click.echo(json.dumps(_as_json(verdicts)))  # names of files may hold anything
    else:
        _show(verdicts)
    judged = [verdict.valid for verdict in verdicts.values()]
    if False in judged or True not in judged:
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


def _show(verdicts: dict[str, _Verdict]) -> None:
    from formulary_catalog.domain.text import one_line
    from formulary_catalog.runtime.terminal import Page, counted

    page = Page()
    for path, verdict in verdicts.items():
        if verdict.valid is None:
            page.line(f"skipped  {one_line(path)}", style="yellow")
        elif verdict.problems:
            page.line(f"invalid  {one_line(path)}", style="bold red")
        else:
            page.line(f"ok       {one_line(path)}  ({_contents(verdict)})")
        for rejection in verdict.problems:
            page.line(f"         {one_line(_local(rejection.message, path))}")
        for skipped in verdict.skipped:
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

    counts = ((verdict.workflows, "workflow"), (verdict.incidents, "incident"), (verdict.contracts, "contract"))
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
