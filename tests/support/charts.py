"""The Helm chart as tests see it: rendered to objects, without a cluster."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python
import yaml

CHART = Path(__file__).parents[2] / "charts" / "formulary"
EXTERNAL: dict[str, Any] = {
    "database": {
        "external": {"existingSecret": "formulary-database", "serverKey": "server-uri", "operatorKey": "operator-uri"}
    },
    "execution": {"mode": "auto"},
}
"""A PostgreSQL of one's own, and runs as the rules decide."""

# Much faster where PyYAML was built with its C library.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_POD_KINDS = ("Deployment", "StatefulSet", "Job")
Object = dict[str, Any]


@functools.cache
def chart() -> helm_python.Chart:
    """The chart, loaded once."""
    return helm_python.Chart.load(CHART)


def ci_values() -> dict[str, dict[str, Any]]:
    """The values of each file in `ci/`, by its name without `-values.yaml`."""
    files = sorted((CHART / "ci").glob("*-values.yaml"))
    return {
        file.name.removesuffix("-values.yaml"): yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader) for file in files
    }


def templates(values: dict[str, Any], *, upgrade: bool = False, namespace: str = "formulary") -> dict[str, str]:
    """The text of each template for the release `formulary`.

    Raises:
        HelmRenderError: a guard refuses the values; the message is its sentence.
    """
    return chart().render(values, name="formulary", namespace=namespace, is_install=not upgrade, is_upgrade=upgrade)


def render(values: dict[str, Any], *, upgrade: bool = False, namespace: str = "formulary") -> list[Object]:
    """All objects, hooks included, in the order of their templates."""
    rendered = sorted(templates(values, upgrade=upgrade, namespace=namespace).items())
    texts = (text for path, text in rendered if not path.endswith(".txt"))
    return [found for text in texts for found in yaml.load_all(text, _LOADER) if found]


def only(objects: list[Object], kind: str, name: str = "") -> Object:
    """The one object of this kind, or of this kind and name."""
    (found,) = [o for o in objects if o["kind"] == kind and name in ("", o["metadata"]["name"])]
    return found


def pods(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """The spec of every pod, with a name for it."""
    for found in objects:
        name = f"{found['kind']} {found['metadata']['name']}"
        if found["kind"] == "Pod":
            yield name, found["spec"]
        elif found["kind"] in _POD_KINDS:
            yield name, found["spec"]["template"]["spec"]


def rules_of_targets() -> list[Object]:
    """What the chart grants the server to read of targets."""
    rendered = render(EXTERNAL)
    names = [f"formulary-formulary-{each}" for each in ("context", "context-nodes")]
    return [rule for name in names for rule in only(rendered, "ClusterRole", name)["rules"]]
