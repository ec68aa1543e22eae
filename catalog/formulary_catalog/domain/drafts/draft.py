"""A draft of a workflow, and the manifest that it becomes: suspended, with comments that say what a person decides.

`runbooks` and `automation` fill it; `loading/drafting` calls both. Nothing of a draft is run or served before
somebody has removed `suspend`; what is not known stands as the narrower value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from formulary_catalog.domain.drafts.commands import Placeholder
from formulary_catalog.domain.text import cut_at_word, one_line, split_camel_case, words
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.yaml_text import LiteralDumper

_MAX_NAME, _MAX_TITLE, _MAX_SAID, _MAX_ACTION_WORDS = 63, 200, 2000, 4
_TO_DECIDE = "TODO"
"""Begins what a draft leaves to its author to write."""
_KUBERNETES_NAME = "^[a-z0-9][-a-z0-9.]*$"
_OBJECTS = ("NAMESPACE", "POD", "NODE", "DEPLOYMENT", "STATEFULSET", "DAEMONSET", "SERVICE", "JOB", "PVC")
_KINDS = {
    "pod": "Pod",
    "po": "Pod",
    "node": "Node",
    "no": "Node",
    "deployment": "Deployment",
    "deploy": "Deployment",
    "statefulset": "StatefulSet",
    "sts": "StatefulSet",
    "daemonset": "DaemonSet",
    "ds": "DaemonSet",
    "job": "Job",
    "cronjob": "CronJob",
    "service": "Service",
    "svc": "Service",
    "ingress": "Ingress",
    "pvc": "PersistentVolumeClaim",
    "persistentvolumeclaim": "PersistentVolumeClaim",
    "hpa": "HorizontalPodAutoscaler",
}
_ACTED_ON = re.compile(
    r"\bkubectl\b[^\n|;&]*?\s(?:delete|scale|patch|edit|annotate|label|set \w+|rollout (?:restart|undo)|drain|cordon"
    r"|uncordon|taint)\s+(?P<kind>[a-z]+)?"
)
_OF_NODES = re.compile(r"\bkubectl\b[^\n|;&]*?\s(?:drain|cordon|uncordon)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftStep:
    """A step; without a command it is one for a person, until somebody writes it."""

    name: str
    description: str = ""
    command: str = ""


@dataclass(slots=True, kw_only=True)
class Draft:
    """What a source says of a workflow. `undecided`: what of it could not be turned into something that runs."""

    title: str
    source: str
    what: str = ""
    when_to_use: str = ""
    when_not_to_use: str = ""
    preconditions: str = ""
    signals: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)
    steps: list[DraftStep] = field(default_factory=list)
    rollback: list[DraftStep] = field(default_factory=list)
    parameters: list[Placeholder] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the object."""
        parts = [part.casefold() for word in words(self.title) for part in split_camel_case(word)]
        ascii_ = re.sub(r"[^a-z0-9]+", "-", "-".join(parts))
        return ascii_.strip("-")[:_MAX_NAME].strip("-") or "draft"


def manifest_of(draft: Draft) -> str:
    """The manifest as YAML with comments; the same for the same draft."""
    lines = [
        f"# A draft from {_comment(draft.source)}, made by `formulary draft`.",
        "# It is not served before you remove `suspend`. Decide what the comments ask, then run `formulary validate`.",
        *(f"# Not taken over: {_comment(each)}" for each in draft.undecided),
        "apiVersion: kubernaut.ai/v1alpha1",
        "kind: RemediationWorkflow",
        _yaml({"metadata": {"name": draft.name}}),
        "spec:",
    ]
    for key, value, comment in _spec(draft):
        if comment:
            lines.append(f"  # {comment}")
        lines += [f"  {line}" if line else "" for line in _yaml({key: value}).split("\n")]
    return "\n".join([*lines, ""])


def _spec(draft: Draft) -> Iterator[tuple[str, Any, str]]:
    """The fields of the spec, each with what is to be decided about it."""
    yield "suspend", True, "Decide: remove this once everything below is right."
    yield "version", "0.1.0", ""
    yield "title", cut_at_word(one_line(draft.title), limit=_MAX_TITLE), ""
    said = {
        "what": draft.what or f"{_TO_DECIDE}: what it changes, in a sentence.",
        "whenToUse": draft.when_to_use or f"{_TO_DECIDE}: alert names, event reasons and messages that point to it.",
        "whenNotToUse": draft.when_not_to_use,
        "preconditions": draft.preconditions,
    }
    yield (
        "description",
        {key: cut_at_word(one_line(text), limit=_MAX_SAID) for key, text in said.items() if text},
        "Decide: does whenToUse name the alerts, reasons and messages? When must it not be used (whenNotToUse)?",
    )
    yield "actionType", _action_type(draft.title), "Decide: one word for what it does, such as RestartWorkload."
    labels = {
        "signalType": draft.signals,
        "severity": ["*"],
        "environment": ["development", "test"],
        "component": _components(draft),
        "priority": "*",
    }
    yield (
        "labels",
        {key: value for key, value in labels.items() if value},
        "Decide: signals and severities that it answers, environments in which it may be used, kinds on which it acts.",
    )
    yield (
        "customLabels",
        {"restarts": "yes", "data-loss": "yes"},
        'Decide: "no" if it restarts or evicts no pod, "no" if it can lose no data; and the labels of your own.',
    )
    yield "detectedLabels", {"gitOpsManaged": False}, "Decide: remove this if it may be used on what GitOps owns."
    if draft.keywords:
        yield "keywords", draft.keywords, ""
    yield "riskLevel", "high", "Decide: low, medium or high."
    yield "steps", [_step(each) for each in draft.steps], "Decide: is each command right, complete and safe to repeat?"
    if draft.rollback:
        yield "rollbackSteps", [_step(each) for each in draft.rollback], "Decide: does this bring the old state back?"
    else:
        yield "rollbackSteps", [], "Decide: what brings the old state back?"
    if draft.parameters:
        comment = "Decide: what each value means, and a pattern that allows nothing else."
        yield "parameters", [_parameter(each) for each in draft.parameters], comment
    yield (
        "execution",
        {"engine": "job"},
        "Decide: bundle, an image with these commands by digest; serviceAccountName, with the rights of these alone.",
    )


def _step(step: DraftStep) -> dict[str, str]:
    said = {"name": step.name, "description": cut_at_word(one_line(step.description), limit=_MAX_SAID)}
    return {key: value for key, value in (said | {"command": step.command}).items() if value}


def _parameter(placeholder: Placeholder) -> dict[str, Any]:
    about_object = placeholder.name.removesuffix("_NAME").endswith(_OBJECTS) or placeholder.name == "NAME"
    known = {
        "name": placeholder.name,
        "type": "string",
        "required": placeholder.default is None,
        "description": placeholder.description or f"{_TO_DECIDE}: {placeholder.written}",
        "default": placeholder.default,
        "enum": list(placeholder.choices) or None,
        "pattern": placeholder.pattern or (_KUBERNETES_NAME if about_object and not placeholder.choices else None),
        "sensitive": placeholder.sensitive or None,
    }
    return {key: value for key, value in known.items() if value is not None}


def _components(draft: Draft) -> list[str]:
    """The kinds on which kubectl acts in the commands; all where none is seen."""
    commands = "\n".join(step.command for step in draft.steps)
    found = [_KINDS.get((match["kind"] or "").removesuffix("s"), "") for match in _ACTED_ON.finditer(commands)]
    nodes = ["Node"] if _OF_NODES.search(commands) else []
    return list(dict.fromkeys(filter(None, (*found, *nodes)))) or ["*"]


def _action_type(title: str) -> str:
    parts = [part for word in words(title) for part in split_camel_case(re.sub("[^A-Za-z0-9]", "", word))]
    camel = "".join(part[0].upper() + part[1:] for part in parts[:_MAX_ACTION_WORDS])
    return camel if re.fullmatch("[A-Z][A-Za-z0-9]{0,99}", camel) else "RunRunbook"


def _yaml(part: dict[str, Any]) -> str:
    return yaml.dump(part, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True).rstrip("\n")


def _comment(text: str) -> str:
    return visible(one_line(text))[:_MAX_TITLE]


class _Dumper(LiteralDumper):
    """Writes equal values as often as they are there, instead of references to the first."""

    def ignore_aliases(self, data: object) -> bool:
        return True
