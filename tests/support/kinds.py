"""What the API server makes of documents of our kinds, and what kubectl shows of them."""

import json
from typing import Any

import yaml

from formulary_operator.api.names import Resource
from support.control_plane import Cluster


def with_value(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """The document with one value replaced; `path` is dotted."""
    *parents, last = path.split(".")
    part = document
    for parent in parents:
        part = part.setdefault(parent, {})
    part[last] = value
    return document


def judged(cluster: Cluster, document: dict[str, Any], *, validate: bool = True) -> dict[str, Any]:
    """The object as the API server would keep it after `kubectl apply`."""
    options = ["--dry-run=server", f"--validate={str(validate).lower()}", "--output=json"]
    found: dict[str, Any] = json.loads(
        cluster.kubectl("apply", *options, "--filename=-", input=yaml.safe_dump(document))
    )
    return found


def set_status(cluster: Cluster, resource: Resource, name: str, *, namespace: str, status: dict[str, Any]) -> None:
    """Give an object this status, as its controller would."""
    path = resource.path(namespace=namespace, name=name)
    document = json.loads(cluster.raw("get", path)) | {"status": status}
    cluster.kubectl("replace", "--raw", f"{path}/status", "--filename=-", input=json.dumps(document))


def table(cluster: Cluster, *arguments: str, namespace: str) -> dict[str, str]:
    """The one row of `kubectl get` by the names of its columns, without the age."""
    header, row = cluster.kubectl("get", *arguments, f"--namespace={namespace}").splitlines()
    cells = dict(zip(header.split(), row.split(), strict=True))
    assert cells.pop("AGE")
    return cells
