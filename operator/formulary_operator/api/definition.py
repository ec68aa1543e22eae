"""What the CustomResourceDefinitions of our kinds have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from formulary_operator.api.names import Json, Resource
from formulary_operator.api.schema import Schema

_COMMON: Mapping[str, Schema] = {
    "apiVersion": {"description": "Version of the schema of this object.", "type": "string"},
    "kind": {"description": "Kind of this object.", "type": "string"},
    "metadata": {"type": "object"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind. `columns` are those of `kubectl get`, to which the age is added."""

    resource: Resource
    short_name: str
    description: str
    spec: Schema
    status: Schema
    columns: Sequence[Mapping[str, Any]]

    def definition(self) -> Json:
        """Its CustomResourceDefinition, of one version."""
        resource = self.resource
        age = column("Age", ".metadata.creationTimestamp", "Age of the object.", kind="date")
        version = {
            "name": resource.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [*self.columns, age],
            "schema": {
                "openAPIV3Schema": {
                    "description": self.description,
                    "type": "object",
                    "required": ["spec"],
                    "properties": {**_COMMON, "spec": self.spec, "status": self.status},
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
                    "shortNames": [self.short_name],
                    "categories": ["formulary"],
                },
                "scope": "Namespaced",
                "versions": [version],
            },
        }


def column(
    name: str,
    path: str,
    description: str,
    *,
    kind: Literal["string", "boolean", "date"] = "string",
    wide: bool = False,
) -> Json:
    """A column of `kubectl get`, a wide one only with `--output=wide`; of dates it shows how long ago they were."""
    shown = {"name": name, "type": kind, "description": description, "jsonPath": path}
    return shown | ({"priority": 1} if wide else {})


def ready(field: str) -> str:
    """The path of a field of the condition Ready."""
    return f'.status.conditions[?(@.type=="Ready")].{field}'
