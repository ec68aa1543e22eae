"""The chart's values: closed, typed, all used, and none used that is not declared."""

import copy
import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from helm_python import HelmValuesError

from support import charts

ROOT = charts.CHART.parents[1]
SCHEMA = json.loads((charts.CHART / "values.schema.json").read_text())
CI = charts.ci_values()
# What only shows together with something else.
SHOWN_BY: dict[str, dict[str, Any]] = {
    "webhook.issuerRef": CI["cnpg"],
    "server.tls.issuerRef": CI["cnpg"],
    "server.serviceAccount.annotations": CI["external"],
    "operator.serviceAccount.annotations": CI["external"],
}
Path = tuple[str, ...]


def leaves(schema: dict[str, Any], prefix: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every value that has no declared values below it, with its schema."""
    for name, child in schema["properties"].items():
        if "properties" in child:
            yield from leaves(child, (*prefix, name))
        elif name != "global":
            yield (*prefix, name), child


LEAVES = {".".join(path): (path, schema) for path, schema in leaves(SCHEMA)}


def changed(values: dict[str, Any], path: Path, value: object) -> dict[str, Any]:
    """A copy of these values with another one at `path`."""
    copied = copy.deepcopy(values)
    place = copied
    for step in path[:-1]:
        place = place.setdefault(step, {})
    place[path[-1]] = value
    return copied


def lookup(values: dict[str, Any], path: Path) -> Any:
    """The value at `path`, None where there is none."""
    for step in path:
        if not isinstance(values, dict) or step not in values:
            return None
        values = values[step]
    return values


@pytest.mark.parametrize("path", [(), ("server",), ("server", "service"), ("database", "cnpg"), ("monitoring",)])
def test_an_unknown_value_is_refused_by_name(path: Path) -> None:
    with pytest.raises(HelmValuesError, match="replicaz"):
        charts.chart().validate_schema(changed(charts.EXTERNAL, (*path, "replicaz"), 3))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("server", "replicas"), "two"),
        (("server", "replicas"), 0),
        (("database", "mode"), "sqlite"),
        (("image", "digest"), "latest"),
        (("catalog", "watchNamespaces"), "payments"),
        (("catalog", "watchNamespaces"), [1]),
        (("operator", "sweepMaxFraction"), 1.5),
        (("webhook", "certificates"), "none"),
        (("catalog", "watchNamespaces"), ["A b"]),
        (("commonLabels",), {"a": 1}),
        (("commonLabels",), {"a": "b c"}),
        (("nameOverride",), "a b"),
        (("nameOverride",), "a" * 64),
        (("authentication", "oidc", "scope"), ""),
        (("authentication", "oidc", "scope"), "openid  profile"),
        (("authentication", "oidc", "scope"), 'api://"x"'),
        (("authentication", "oidc", "scope"), "openid\\profile"),
        (("namespaceOverride",), "Formulary"),
        (("execution", "namespaces"), ["A b"]),
        (("execution", "runsNamespace"), "A b"),
        (("catalog", "namespace"), "A b"),
        (("operator", "podLabels"), {"a": "b c"}),
        (("server", "livenessProbe"), None),
        (("server", "ingress", "hosts"), [""]),
        (("execution", "mode"), "on"),
        (("fullnameOverride",), "Formulary"),
        (("webhook", "enabled"), "maybe"),
        (("execution", "engines"), ["ansible"]),
        (("execution", "engines"), []),
        (("execution", "agents"), [{"name": "holmesgpt"}]),
        (("execution", "agents"), [{"name": "holmesgpt", "namespace": "agents", "in": ["A b"]}]),
    ],
)
def test_a_wrong_value_is_refused(path: Path, value: object) -> None:
    with pytest.raises(HelmValuesError, match=path[-1]):
        charts.chart().validate_schema(changed(charts.EXTERNAL, path, value))


@pytest.mark.parametrize("name", ["Formulary", "my.formulary", "a" * 63])
def test_a_name_that_only_the_selector_of_an_earlier_release_has_is_kept(name: str) -> None:
    values = charts.EXTERNAL | {"nameOverride": name, "fullnameOverride": "formulary"}

    charts.chart().validate_schema(values)
    deployments = [each for each in charts.render(values) if each["kind"] == "Deployment"]
    assert {each["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] for each in deployments} == {name}


def test_a_scope_of_an_application_is_taken() -> None:
    charts.chart().validate_schema(
        changed(charts.EXTERNAL, ("authentication", "oidc", "scope"), "openid api://formulary/.default")
    )


def test_the_defaults_and_every_example_fit_the_schema() -> None:
    for values in ({}, *CI.values()):
        charts.chart().validate_schema(values)


def test_a_parent_chart_may_hand_down_its_globals() -> None:
    charts.chart().validate_schema({"global": {"region": "eu"}})


def test_every_value_makes_a_difference() -> None:
    assert len(LEAVES) > 150
    assert [name for name in LEAVES if not _is_used(name)] == []


def test_every_value_that_a_template_names_is_declared() -> None:
    declared = {path for path, _ in LEAVES.values()}
    declared |= {path[:length] for path in declared for length in range(1, len(path))}
    named = {
        (template["name"], tuple(name.split(".")))
        for template in charts.chart().templates
        for name in re.findall(r"\.Values\.([A-Za-z][\w.]*)", template["data"])
    }

    # What is below a free map, such as the requests in resources, is its own affair.
    assert [(file, ".".join(path)) for file, path in sorted(named) if path not in declared] == []


def test_every_value_that_the_pages_set_is_declared() -> None:
    pages = (
        ROOT / "docs" / "install.md",
        ROOT / "docs" / "invocation.md",
        ROOT / "docs" / "operations.md",
        ROOT / "README.md",
        charts.CHART / "README.md",
    )
    named = {name for page in pages for name in re.findall(r"--set ([\w.]+)=", page.read_text())}

    assert "starterCatalog.enabled" in named
    assert named - LEAVES.keys() == set()


def _is_used(name: str) -> bool:
    """Whether another value leads to another rendering of some example."""
    path, schema = LEAVES[name]
    examples = [SHOWN_BY[name]] if name in SHOWN_BY else list(CI.values())
    return any(_differs(values, path, schema) for values in examples)


def _differs(values: dict[str, Any], path: Path, schema: dict[str, Any]) -> bool:
    current = lookup(charts.chart().merge_values(values), path)
    return any(
        _rendered(changed(values, path, candidate)) != _unchanged(json.dumps(values))
        for candidate in _candidates(schema)
        if candidate != current
    )


@functools.cache
def _unchanged(values: str) -> dict[str, str]:
    return _rendered(json.loads(values))


def _rendered(values: dict[str, Any]) -> dict[str, str]:
    try:
        rendered = charts.templates(values)
    except Exception as error:  # a guard: its sentence is the difference
        return {"refused": str(error)}
    return {path: re.sub(r"(-(?:password|uri): ).+", r"\1", text) for path, text in rendered.items()}


def _candidates(schema: dict[str, Any]) -> list[Any]:
    """Other values that the schema allows."""
    if "enum" in schema:
        return list(schema["enum"])
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    item = schema.get("items", {}).get("type", "object")
    if kind == "array":
        texts = ["changed"]
        return [texts if item == "string" else [4242] if item == "integer" else [{"name": "changed"}]]
    return {
        "boolean": [True, False],
        "integer": [schema.get("minimum", 0), schema.get("minimum", 0) + 4],
        "number": [0, 1],
        "string": ["sha256:" + "1" * 64] if "pattern" in schema else ["changed"],
        "object": [{"changed": "yes"}],
    }[kind]
