"""The reference page of all fields of our kinds, in Markdown, made from the schemas of their CRDs."""

from collections.abc import Iterator

from formulary_operator.api.crds import KINDS
from formulary_operator.api.names import Json
from formulary_operator.api.schema import Schema

_INTRODUCTION = """\
# API reference

What `kubectl explain` shows, on one page. Where the type is *text or list*, a text means a list of one. A null is
an absent field. The API server drops fields that a kind does not know, but for AIAnalysis, which keeps them.
"""


def reference_page() -> str:
    """The page."""
    return "\n".join([_INTRODUCTION, *(_section(kind.definition()) for kind in KINDS)])


def _section(crd: Json) -> str:
    spec = crd["spec"]
    (version,) = spec["versions"]
    names = spec["names"]
    schema = version["schema"]["openAPIV3Schema"]
    rows = [row for part in ("spec", "status") for row in _rows(schema["properties"][part], path=part, required=False)]
    return "\n".join(
        [
            f"## {names['kind']}",
            "",
            f"`{spec['group']}/{version['name']}`, {spec['scope'].lower()}; `kubectl get {names['shortNames'][0]}`.",
            schema["description"],
            "",
            "| field | type | rules | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _rows(schema: Schema, *, path: str, required: bool) -> Iterator[str]:
    rules = ", ".join(_rules(schema, required=required))
    yield f"| `{path}` | {_type(schema)} | {rules} | {schema.get('description', '').replace('|', '&#124;')} |"
    inner, path = (schema["items"], f"{path}[]") if schema.get("type") == "array" else (schema, path)
    for name, member in inner.get("properties", {}).items():
        yield from _rows(member, path=f"{path}.{name}", required=name in inner.get("required", ()))


def _type(schema: Schema) -> str:
    kind = schema.get("type")
    if kind is None:
        return "text or list" if "items" in schema else "any"
    if kind == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    return "text" if kind == "string" else str(kind)


def _rules(schema: Schema, *, required: bool) -> Iterator[str]:
    if required:
        yield "required"
    if "pattern" in schema and schema.get("minLength"):
        yield "not blank"
    if "enum" in schema:
        yield " or ".join(f"`{value}`" for value in schema["enum"])
    if "default" in schema:
        yield f"default `{schema['default']}`"
    if schema.get("exclusiveMinimum"):
        yield f"above {schema['minimum']:,}"
    if "maximum" in schema:
        yield f"at most {schema['maximum']:,}"
    if "maxItems" in schema:
        yield f"at most {schema['maxItems']:,} of them"
    if "maxLength" in schema:
        yield f"at most {schema['maxLength']:,} characters"
