"""What an incident allows, for the judge alone: written from docs/request-context.md, importing nothing of the product.

A workflow is the `spec` of its manifest. What is demanded is `{"environment": "…", "custom": {key: [values]},
"strict": [keys], "detected": {fact: bool}}`. `restarts` and `data-loss` are always strict, and only `no` demands.
"""

from collections.abc import Mapping
from typing import Any

ANY = "*"
STANDARD = ("restarts", "data-loss")


def allowed(spec: Mapping[str, Any], demand: Mapping[str, Any]) -> bool:
    """Whether the owners of the target accept this workflow."""
    environments = [each.casefold() for each in _list(spec["labels"].get("environment"))]
    return (
        (not environments or ANY in environments or demand["environment"].casefold() in environments)
        and all(_custom(spec, key, values, demand["strict"]) for key, values in demand["custom"].items())
        and all(
            demand["detected"].get(fact, required) == required
            for fact, required in (spec.get("detectedLabels") or {}).items()
        )
    )


def _custom(spec: Mapping[str, Any], key: str, asked: list[str], strict: list[str]) -> bool:
    if key in STANDARD and "no" not in asked:
        return True
    declared = _list((spec.get("customLabels") or {}).get(key))
    if not declared:
        return key not in strict and key not in STANDARD
    return ANY in declared or bool({*declared} & {*asked})


def _list(value: Any) -> list[str]:
    return list(value) if isinstance(value, list) else [value] if value else []
