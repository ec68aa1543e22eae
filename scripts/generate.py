"""Writes the files that are derived from the code; with `--check` only tells whether they are up to date."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Metric
from pydantic_settings import BaseSettings

import chart
import platforms
import tools
from formulary_catalog.edges.app import openapi_document
from formulary_catalog.edges.mcp.tools import TOOLSETS
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import LabelSpelling, Settings, Toolset
from formulary_operator.api.crds import CRDS, crd_text
from formulary_operator.api.names import WORKFLOWS
from formulary_operator.api.reference import reference_page
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings

ROOT = Path(__file__).parents[1]
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "maxLength": "up to {} characters",
    "maxItems": "up to {} entries",
}


def configuration() -> str:
    """The reference page of all settings, in Markdown."""
    head = "| variable | default | meaning |\n|---|---|---|"
    logging = "| `FORMULARY_LOG_LEVEL` | `info` | `debug`, `info`, `warning` or `error`. |"
    return "\n".join(
        [
            "# Configuration",
            "",
            "Flags override environment variables, which override defaults. `formulary COMMAND --help` lists flags.",
            "",
            "## `formulary`",
            "",
            head,
            *_rows(Settings),
            "| `FORMULARY_URL` | `http://127.0.0.1:8080` | The server that commands ask. Those that work on a database "
            "itself then need `--database-url` or `--data-dir`. |",
            "| `FORMULARY_REMEDIATION_ID` |  | Incident of all calls to `formulary stdio`. |",
            logging,
            "",
            "## `formulary-operator`",
            "",
            "Environment variables only. The API server is that of the pod's ServiceAccount, else of `KUBECONFIG`.",
            "",
            head,
            *_rows(OperatorSettings),
            logging,
            "",
        ]
    )


def metrics_page() -> str:
    """The reference page of all metrics, in Markdown, as their registries have them."""
    lines = ["# Metrics", "", "Served at `/metrics` in the Prometheus text format.", ""]
    for heading, registry in {"The server": Metrics().registry, "The operator": OperatorMetrics().registry}.items():
        lines += [f"## {heading}", "", "| metric | type | labels | meaning |", "|---|---|---|---|"]
        lines += [_metric_row(metric, registry) for metric in registry.collect()]
        lines.append("")
    return "\n".join(lines)


def openapi() -> str:
    """The OpenAPI document of the REST interface."""
    return json.dumps(openapi_document(), indent=2, sort_keys=True) + "\n"


def tools_page() -> str:
    """The reference page of all MCP tools and their arguments, in Markdown."""
    lines = ["# Tools", "", "The MCP tools as `tools/list` has them. [mcp.md](../mcp.md) says how to call them.", ""]
    lines += ["`…` in an example stands for the rest of an id that an earlier answer gave.", ""]
    for toolset, catalog_tool in ((each, tool) for each in Toolset for tool in TOOLSETS[each]):
        tool = catalog_tool.listed(spelling=LabelSpelling.DOTTED, with_clusters=True)
        lines += [f"## `{tool.name}`", "", f"{tool.description}", ""]
        lines += tools.lines(toolset, tool.model_dump(by_alias=True))
        lines += ["| argument | type | meaning | example |", "|---|---|---|---|"]
        for name, argument in tool.input_schema["properties"].items():
            kind = [
                argument["type"],
                *(words.format(argument[key]) for key, words in _BOUNDS.items() if key in argument),
            ]
            choices = [f"such as {', '.join(argument['enum'])}"] if "enum" in argument else []
            required = ["required"] if name in tool.input_schema["required"] else []
            example = json.dumps(argument["examples"][0], ensure_ascii=False)
            rule = ", ".join([*kind, *choices, *required])
            lines.append(f"| `{name}` | {rule} | {argument['description']} | `{example}` |")
        lines.append("")
    return "\n".join(lines)


def install_page() -> str:
    """The page on installing with the table of supported machines as `make platforms` found them."""
    return _with_part("docs/install.md", "platforms", f"{platforms.table()}\n")


def _with_part(path: str, name: str, part: str) -> str:
    """A page with a part between its marks replaced."""
    before, mark, rest = (ROOT / path).read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->\n")
    return f"{before}{mark}{part}{end}{after}"


def crd(name: str) -> Callable[[], str]:
    """Maker of the CRD file of this name."""
    return lambda: crd_text(CRDS[name].definition())


def workflow_schema() -> str:
    """The JSON Schema of RemediationWorkflow manifests, for editors: that of the CRD, without what the cluster adds.

    In draft 4, whose words are those of a CRD. Fields that nobody knows are marked: most of them are misspelt.
    """
    definition = CRDS[f"{WORKFLOWS.group}_{WORKFLOWS.plural}.yaml"].definition()["spec"]
    found = definition["versions"][0]["schema"]["openAPIV3Schema"]
    document = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "title": WORKFLOWS.kind,
        "description": found["description"],
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"enum": [WORKFLOWS.api_version]},
            "kind": {"enum": [WORKFLOWS.kind]},
            "metadata": {
                "type": "object",
                "required": ["name"],
                "properties": {name: {"type": "string"} for name in ("name", "namespace")},
            },
            "spec": _closed(found["properties"]["spec"]),
        },
        "additionalProperties": False,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a CRD's schema that admits no other members than those it names, without the words of Kubernetes."""
    closed = {word: value for word, value in schema.items() if not word.startswith("x-kubernetes-")}
    if "properties" in schema:
        members = {name: _closed(member) for name, member in schema["properties"].items()}
        closed |= {"properties": members, "additionalProperties": False}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            closed[word] = _closed(schema[word])
    return closed


FILES: Mapping[str, Callable[[], str]] = {
    "charts/formulary/README.md": chart.readme,
    "charts/formulary/files/defaults.json": chart.defaults,
    "charts/formulary/values.schema.json": chart.schema,
    "docs/reference/api.md": reference_page,
    "docs/reference/configuration.md": configuration,
    "docs/install.md": install_page,
    "docs/reference/metrics.md": metrics_page,
    "docs/openapi.json": openapi,
    "docs/reference/tools.md": tools_page,
    "schemas/remediationworkflow.schema.json": workflow_schema,
    # The chart carries copies: Helm packs only what lies in its own directory.
    **{f"{directory}/{name}": crd(name) for directory in ("crds", "charts/formulary/files/crds") for name in CRDS},
}


def main(*, check: bool) -> int:
    """Write or compare; 1 when something is out of date."""
    stale = [path for path, make in FILES.items() if not _current(ROOT / path, make())]
    if check:
        for path in stale:
            print(f"{path} is out of date; run `make generate`", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(FILES[path](), encoding="utf-8")
        print(f"wrote {path}")
    return 0


def _current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def _metric_row(metric: Metric, registry: CollectorRegistry) -> str:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    # The client shows label names of series alone, and there are none before something is observed.
    labels = ", ".join(f"`{label}`" for label in vars(registry._names_to_collectors[metric.name])["_labelnames"])
    return f"| `{name}` | {metric.type} | {labels} | {metric.documentation} |"


def _rows(settings: type[BaseSettings]) -> list[str]:
    return [
        f"| `FORMULARY_{name.upper()}` | {_default(field.get_default())} | {field.description} |"
        for name, field in settings.model_fields.items()
    ]


def _default(value: object) -> str:
    if value is None or value == "" or value in (frozenset(), ()):
        return ""
    if isinstance(value, tuple | frozenset):
        value = ",".join(sorted(value) if isinstance(value, frozenset) else value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
