"""`formulary new` and `who-sees`: the manifest that an author begins with, and whom what became of it is offered to.

Both work offline. The first is valid as it is, and its comments say what to change; the second takes the rules of a
search, for the incidents and the labels of namespaces and workloads that lie in files.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import DIRECTORY, json_option, settings_of
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.domain.entry import CatalogEntry
    from formulary_catalog.domain.incidents import RequestContext
    from formulary_catalog.domain.targets.reference import TargetReference
    from formulary_catalog.loading.manifests import Manifests
    from formulary_catalog.settings import Settings

    _Demanding = tuple[TargetReference, RequestContext | str]
    """A target with what its labels demand, or why that is not known."""

_SEEN = ("workflow", "remediation_id", "target", "excluded_by")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MANIFEST = """\
# Change what follows, then: formulary validate {name}.yaml && formulary up --manifests . --watch
apiVersion: kubernaut.ai/v1alpha1
kind: RemediationWorkflow
metadata:
  name: {name}
spec:
  version: 1.0.0                    # a version that was applied never changes: raise it with each edit
  title: '{title}'
  description:                      # agents find and judge the workflow by these texts
    what: Restarts the workload so that its processes begin with empty memory.
    whenToUse: >-
      Memory of the workload grows steadily without a growth of traffic, and a restart brought it down before.
    whenNotToUse: >-
      Memory levels off at the limit under load; the limit is too low then, and a restart does not help.
    preconditions: At least two replicas are ready.
  actionType: RestartWorkload
  labels:                           # hard filters: it is never returned for an incident that they exclude
    signalType: [OOMKilled]         # the alerts or event reasons that it answers
    severity: [critical, high]
    environment: [staging]          # production, staging, development, test, or '*'
    component: [Deployment, StatefulSet]
    priority: '*'                   # P0 to P3, or '*' for any
  customLabels:                     # what it does to a workload; owners forbid by these keys
    restarts: 'yes'                 # restarts, evicts or deletes pods
    data-loss: 'no'                 # can lose data
  riskLevel: low                    # low, medium or high
  estimatedDuration: 5m
  parameters:
    - {{name: NAMESPACE, type: string, required: true, description: Namespace of the workload.}}
    - {{name: WORKLOAD, type: string, required: true, description: 'Workload, such as deployment/checkout.'}}
  steps:                            # parameters are variables of the environment; quote them
    - name: restart
      description: Replace the pods one by one
      command: kubectl -n "${{NAMESPACE}}" rollout restart "${{WORKLOAD}}"
    - name: verify
      description: All replicas are ready again
      command: kubectl -n "${{NAMESPACE}}" rollout status "${{WORKLOAD}}" --timeout=5m
  rollbackSteps:
    - name: undo
      description: Go back to the pods before, if the new ones do not become ready
      command: kubectl -n "${{NAMESPACE}}" rollout undo "${{WORKLOAD}}"
  execution:                        # what runs the steps; leave bundle out for a workflow that people follow by hand
    engine: job
"""


@click.command("new")
@click.argument("name", metavar="NAME")
def new_command(*, name: str) -> None:
    """Print a commented manifest of a workflow, to begin with.

    It is valid as it is: change it, then check it with `formulary validate`.

    \b
    Example:
      formulary new restart-leaking-cache > restart-leaking-cache.yaml
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"NAME {name!r} is no name of an object; give lower-case letters, digits and hyphens, at most 63",
            field="name",
        )
    import yaml

    text = yaml.safe_dump(name).partition("\n")[0]  # quotes `on`, `null`, `1e3` and dates, which YAML reads otherwise
    click.echo(_MANIFEST.format(name=text, title=name.replace("-", " ").capitalize()), nl=False)


@click.command("who-sees")
@click.argument("file", type=DIRECTORY, metavar="FILE")
@click.option(
    "--manifests",
    type=DIRECTORY,
    multiple=True,
    metavar="DIR",
    help="Directory with manifests of AIAnalysis objects, Namespaces and workloads; may be repeated. Default: that of "
    "FILE.",
)
@json_option
def who_sees_command(*, file: Path, manifests: tuple[Path, ...], as_json: bool) -> None:
    """Show for which incidents and targets the workflows of a file would be offered, or which rule excludes them.

    Works offline, by the label rules of a search; of a namespace, by its labels alone. Exit code 1 if none is offered.

    \b
    Example:
      formulary who-sees cart.yaml --manifests ./incidents
    """
    from formulary_catalog.runtime.terminal import Page

    settings = settings_of()
    entries = _read([file], settings=settings)
    if entries.rejections or not entries.served:
        problem = entries.rejections[0].message if entries.rejections else f"{file} holds no workflow"
        raise InvalidInput(f"{problem}; `formulary validate` shows all that is wrong", field="file")
    there = _read(manifests or [file.parent], settings=settings)
    names = [(entry, f"{entry.namespace}/{entry.name}") for entry in entries.served]
    incidents = [
        (name, each.context.remediation_id, each.context.target, _first_rule(entry, each.context, settings))
        for entry, name in names
        for each in there.contexts
    ]
    namespaces = _rows_of(_namespaces(there, settings=settings), names=names, settings=settings)
    workloads = _rows_of(asyncio.run(_workloads(there, settings=settings)), names=names, settings=settings)
    rows = [*incidents, *namespaces, *workloads]
    if as_json:
        found = {"incidents": incidents, "namespaces": namespaces, "workloads": workloads}
        answer = {each: [dict(zip(_SEEN, row, strict=True)) for row in found[each]] for each in found}
        click.echo(json.dumps(answer, ensure_ascii=False))
    elif not rows:
        click.echo(
            "There is no AIAnalysis, Namespace or workload to compare with; name a directory with some by --manifests."
        )
    else:
        shown = [
            (target or "unknown", "no" if rule else "yes", rule, workflow, id_) for workflow, id_, target, rule in rows
        ]
        Page().table(("TARGET", "OFFERED", "WHY NOT", "WORKFLOW", "INCIDENT"), shown, whole=("OFFERED", "INCIDENT"))
    if all(rule for *_, rule in rows):
        raise SystemExit(1)


def _read(paths: Iterable[Path], *, settings: "Settings") -> "Manifests":
    from formulary_catalog.loading.documents import read_documents
    from formulary_catalog.loading.files import find_manifests
    from formulary_catalog.loading.manifests import sort_out

    found = find_manifests(paths)
    documents = [each for manifest in found.files for each in read_documents(manifest.path, name=manifest.name)]
    return sort_out([*found.rejections, *documents], default_namespace=settings.catalog_namespace)


def _rows_of(
    targets: "Iterable[_Demanding]", *, names: "Sequence[tuple[CatalogEntry, str]]", settings: "Settings"
) -> list[tuple[str, str, str, str]]:
    """Each workflow with each target, and the first rule that excludes it there."""
    known = [*targets]
    return [
        (name, "", str(reference), _said_of_target(entry, said, settings))
        for entry, name in names
        for reference, said in known
    ]


def _namespaces(manifests: "Manifests", *, settings: "Settings") -> "Iterator[_Demanding]":
    """What the labels of each Namespace demand of whatever is in it, or why that is not known."""
    from formulary_catalog.domain.targets.context import target_context
    from formulary_catalog.domain.targets.reference import TargetReference
    from formulary_catalog.domain.targets.surroundings import Surroundings, metadata_of
    from formulary_catalog.errors import ContextError
    from formulary_catalog.loading.targets import read_context_mapping

    mapping = read_context_mapping(settings.context_file)
    for document in manifests.ignored:
        if document.content.get("kind") != "Namespace":
            continue
        found = metadata_of(document.content, kind="Namespace")
        reference = TargetReference(namespace="", kind="Namespace", name=found.name)
        around = Surroundings(reference=reference, api_version="v1", found=found, namespace=found)
        try:  # what is detected is not of the namespace, but of each workload in it
            yield reference, replace(target_context(around, mapping=mapping), detected_labels={})
        except ContextError as error:
            yield reference, str(error)


async def _workloads(manifests: "Manifests", *, settings: "Settings") -> "list[_Demanding]":
    """What the labels of each workload and its namespace demand, or why that is not known."""
    from formulary_catalog.domain.targets.context import target_context
    from formulary_catalog.errors import ContextError
    from formulary_catalog.loading.targets import ManifestTargets, read_context_mapping

    mapping = read_context_mapping(settings.context_file)
    targets = ManifestTargets(default_namespace=settings.catalog_namespace)
    targets.replace(manifests.ignored)
    found: list[_Demanding] = []
    for reference in targets.workloads():
        try:
            around = await targets.read(reference, kind=await targets.kind_of(reference))
            found.append((reference, target_context(around, mapping=mapping)))
        except ContextError as error:
            found.append((reference, str(error)))
    return found


def _said_of_target(entry: "CatalogEntry", said: "RequestContext | str", settings: "Settings") -> str:
    return said if isinstance(said, str) else _first_rule(entry, said, settings)


def _first_rule(entry: "CatalogEntry", context: "RequestContext", settings: "Settings") -> str:
    """The first rule that excludes the workflow from searches of the incident; empty if it is offered."""
    return next(_rules(entry, context, settings), "")


def _rules(entry: "CatalogEntry", context: "RequestContext", settings: "Settings") -> Iterator[str]:
    from formulary_catalog.domain.incidents import constraints_of
    from formulary_catalog.domain.workflows.exclusion import exclusions, unserved

    if entry.workflow.spec.suspend:
        yield str(unserved("Disabled", version=entry.version, served=""))
    whose = "incident" if context.analysis else "target"
    visible = {settings.catalog_namespace, context.namespace, context.target_namespace}
    if entry.namespace not in visible:
        yield f"namespace: the workflow is in {entry.namespace}, which is neither shared nor that of the {whose}"
    constraints = constraints_of(context, strict_keys=settings.strict_custom_labels)
    says = "the incident says" if context.analysis else "its labels say"
    yield from map(str, exclusions(entry.labels, constraints, imposed=constraints, reveal_custom=True, says=says))
