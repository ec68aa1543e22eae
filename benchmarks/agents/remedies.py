"""The catalogs that are compared: the starter workflows as they are shipped, and near neighbours of them.

A variant is the remedy of a starter workflow as one team declares it for one environment. RULES.md says which.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import count, islice
from pathlib import Path
from typing import Any

import yaml

SIZES = (118, 500, 5000)
HERE = Path(__file__).parent
STARTER = HERE.parents[1] / "catalog" / "workflows"
TEAMS = (
    "shop", "payments", "search", "media", "identity", "logistics",
    "billing", "mobile", "data", "risk", "support", "platform",
)  # fmt: skip
ENVIRONMENTS = ("production", "staging", "development", "test")
_GITOPS_EACH = 3
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Remedy:
    """A workflow with its manifest; `origin` is the starter workflow that it is, or is a variant of."""

    origin: str
    manifest: Mapping[str, Any]

    @property
    def name(self) -> str:
        name: str = self.manifest["metadata"]["name"]
        return name

    @property
    def spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.manifest["spec"]
        return spec

    @cached_property
    def text(self) -> str:
        """What agents read of it where nothing else filters: name, title, labels in words, description."""
        spec, description = self.spec, self.spec["description"]
        parts = (
            f"{self.name}: {spec['title']}.",
            *_in_words(spec),
            f"{description['what']} Use when: {description['whenToUse']}",
        )
        return " ".join(" ".join(parts).split())

    @property
    def acts(self) -> frozenset[str]:
        """What it does, by `acts.yaml`. A variant has the steps of its origin."""
        return _done(self.origin)


def catalog(size: int) -> list[Remedy]:
    """So many workflows, by name: all starter workflows, then variants in turns."""
    starter = [Remedy(origin=each["metadata"]["name"], manifest=each) for each in _starter()]
    variants = (_variant(origin, number) for number in count() for origin in starter)
    return sorted([*starter, *islice(variants, max(size - len(starter), 0))], key=lambda each: each.name)


def _variant(origin: Remedy, number: int) -> Remedy:
    team = TEAMS[number % len(TEAMS)]
    environment = ENVIRONMENTS[(number + number // len(TEAMS)) % len(ENVIRONMENTS)]
    manifest = copy.deepcopy(dict(origin.manifest))
    spec = manifest["spec"]
    detected = spec.get("detectedLabels") or {}
    gitops = number % _GITOPS_EACH == 0 and detected.get("gitOpsManaged") is False
    if gitops:
        spec["detectedLabels"] = {**detected, "gitOpsManaged": True}
    where = f"{environment}{' where GitOps owns the objects' if gitops else ''}"
    manifest["metadata"]["name"] = f"{origin.name}-{team}-{environment}{'-gitops' if gitops else ''}"
    spec["title"] = f"{spec['title']} ({team}, {where})"
    spec["description"]["what"] = f"{spec['description']['what']} As the {team} team does it in {where}."
    spec["labels"]["environment"] = [environment]
    spec["customLabels"] = {**(spec.get("customLabels") or {}), "team": team}
    return Remedy(origin=origin.name, manifest=manifest)


def _in_words(spec: Mapping[str, Any]) -> Iterator[str]:
    custom, detected = spec.get("customLabels") or {}, spec.get("detectedLabels") or {}
    yield f"Environment: {', '.join(spec['labels']['environment'])}."
    yield from (f"{key}: {value}." for key, value in sorted(custom.items()))
    if "gitOpsManaged" in detected:
        yield f"GitOps: {'only' if detected['gitOpsManaged'] else 'not'} for what GitOps owns."


@cache
def _starter() -> list[dict[str, Any]]:
    texts = [file.read_text(encoding="utf-8") for file in sorted(STARTER.glob("*.yaml"))]
    return [each for text in texts for each in yaml.load_all(text, Loader=_LOADER) if each]


@cache
def _done(origin: str) -> frozenset[str]:
    spec = next(each["spec"] for each in _starter() if each["metadata"]["name"] == origin)
    commands = [" ".join(step["command"].split()) for step in spec["steps"]]
    return frozenset(act for act, sign in _acts().items() if any(map(sign.search, commands)))


@cache
def _acts() -> dict[str, re.Pattern[str]]:
    written = yaml.safe_load((HERE / "acts.yaml").read_text(encoding="utf-8"))
    return {act: re.compile(sign) for act, sign in written.items()}
