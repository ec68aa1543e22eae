"""Objects against the published API of Kubernetes, and against what we know of other operators' kinds."""

import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any

from kubernetes.aio.client import models
from pydantic import BaseModel

# The parts of other operators' kinds that the chart sets, as their CRDs have them.
_OTHERS: dict[tuple[str, str], set[str]] = {
    ("postgresql.cnpg.io/v1", "Cluster"): {
        "instances",
        "imageName",
        "inheritedMetadata",
        "bootstrap",
        "managed",
        "storage",
        "resources",
        "monitoring",
    },
    ("monitoring.coreos.com/v1", "ServiceMonitor"): {"selector", "endpoints"},
    ("monitoring.coreos.com/v1", "PodMonitor"): {"selector", "podMetricsEndpoints"},
    ("monitoring.coreos.com/v1", "PrometheusRule"): {"groups"},
    ("cert-manager.io/v1", "Issuer"): {"selfSigned"},
    ("cert-manager.io/v1", "Certificate"): {"secretName", "dnsNames", "issuerRef"},
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): {"parentRefs", "hostnames", "rules"},
    ("kagent.dev/v1alpha2", "RemoteMCPServer"): {
        "description",
        "protocol",
        "url",
        "timeout",
        "allowedHeaders",
        "headersFrom",
    },
}
_OPEN = {"CustomResourceDefinition"}  # a JSON schema inside; the API server of the cluster tests takes them


def unknown_fields(found: dict[str, Any]) -> list[str]:
    """The fields of an object that its kind does not have, each with its path."""
    version, kind = found["apiVersion"], found["kind"]
    if kind in _OPEN:
        return []
    if (version, kind) in _OTHERS:
        return [f"{kind} spec.{key}" for key in found["spec"].keys() - _OTHERS[version, kind]]
    model = getattr(models, f"{version.rpartition('/')[2].capitalize()}{kind}")
    return list(_unknown(found, model, path=kind))


def _unknown(value: Any, expected: Any, *, path: str) -> Iterator[str]:
    expected = _required(expected)
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is list and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, arguments[0], path=f"{path}[{index}]")
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _unknown(item, arguments[1], path=f"{path}.{key}")
    elif isinstance(expected, type) and issubclass(expected, BaseModel) and isinstance(value, dict):
        known = {field.serialization_alias or name: field for name, field in expected.model_fields.items()}
        for key, item in value.items():
            if key not in known:
                yield f"{path}.{key}"
            else:
                yield from _unknown(item, known[key].annotation, path=f"{path}.{key}")
    elif isinstance(expected, type) and expected in (str, int, bool) and not isinstance(value, expected):
        yield f"{path} is {value!r}, not {expected.__name__}"


def _required(expected: Any) -> Any:
    """A type without `Optional` and `Annotated`."""
    if typing.get_origin(expected) is Annotated:
        return _required(typing.get_args(expected)[0])
    if typing.get_origin(expected) in (typing.Union, types.UnionType):
        present = [argument for argument in typing.get_args(expected) if argument is not type(None)]
        return _required(present[0]) if len(present) == 1 else Any
    return expected
