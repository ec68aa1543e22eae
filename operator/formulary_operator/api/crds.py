"""The CustomResourceDefinitions of the two kinds that the operator watches, made from the models."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from formulary_catalog.domain.workflow import WorkflowSpec
from formulary_operator.api.analysis import AnalysisSpec
from formulary_operator.api.names import ANALYSES, WORKFLOWS, Resource
from formulary_operator.api.schema import PRESERVE, Schema, structural_schema
from formulary_operator.api.status import WorkflowStatus

_HEADER = "# Generated from the models by `make generate`; change those.\n"
_COMMON: Mapping[str, Schema] = {
    "apiVersion": {"description": "Version of the schema of this object.", "type": "string"},
    "kind": {"description": "Kind of this object.", "type": "string"},
    "metadata": {"type": "object"},
}


def workflow_crd() -> dict[str, Any]:
    """RemediationWorkflow. What neither upstream nor we know is pruned, as it is upstream."""
    return _definition(
        WORKFLOWS,
        short_name="rw",
        description="A remedy that a platform team has approved, with the conditions under which it may be used. "
        "Agents search these for what fixes an incident, and are offered only what its labels allow.",
        spec=structural_schema(WorkflowSpec),
        status=structural_schema(WorkflowStatus),
        columns=[
            _column("Action", ".spec.actionType", "What kind of action it takes."),
            _column("Version", ".spec.version", "Version of the content."),
            _column("Status", ".status.catalogStatus", "What the catalog has made of it."),
            _column("Ready", _ready("status"), "Whether the newest content is served."),
            _column("Reason", _ready("reason"), "Why it is ready or not.", wide=True),
        ],
    )


def analysis_crd() -> dict[str, Any]:
    """AIAnalysis. It is somebody else's: every field survives, also those of releases to come."""
    return _definition(
        ANALYSES,
        short_name="aia",
        description="The analysis of one incident. Formulary reads from it what every search of this incident must "
        "obey, and never writes it.",
        spec=structural_schema(AnalysisSpec, keep_unknown=True),
        status={"description": "How far the analysis is, told by its controller.", "type": "object", PRESERVE: True},
        columns=[
            _column("Phase", ".status.phase", "How far the analysis is."),
            _column("Reason", ".status.reason", "Why it ended as it did.", wide=True),
        ],
    )


CRDS: Mapping[str, Callable[[], dict[str, Any]]] = {
    f"{resource.group}_{resource.plural}.yaml": make
    for resource, make in ((WORKFLOWS, workflow_crd), (ANALYSES, analysis_crd))
}
"""Makers of the definitions by the names of their files."""


def crd_text(crd: Mapping[str, Any]) -> str:
    """A definition as a YAML file."""
    return _HEADER + yaml.dump(crd, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


class _Plain(yaml.SafeDumper):
    """Writes equal parts out each time: anchors would make the file harder to read, and to template."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _definition(
    resource: Resource,
    *,
    short_name: str,
    description: str,
    spec: Schema,
    status: Schema,
    columns: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    age = _column("Age", ".metadata.creationTimestamp", "Since when it has existed.") | {"type": "date"}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [*columns, age],
        "schema": {
            "openAPIV3Schema": {
                "description": description,
                "type": "object",
                "required": ["spec"],
                "properties": {**_COMMON, "spec": spec, "status": status},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [short_name],
                "categories": ["formulary"],
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _column(name: str, path: str, description: str, *, wide: bool = False) -> dict[str, Any]:
    column = {"name": name, "type": "string", "description": description, "jsonPath": path}
    return column | ({"priority": 1} if wide else {})


def _ready(field: str) -> str:
    return f'.status.conditions[?(@.type=="Ready")].{field}'
