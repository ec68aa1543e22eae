"""What the steps of a workflow do, as pairs of a verb and a kind: `("change", "service")`.

`bench_itbench.py` judges by them. A step does its verbs to each kind that it names.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from formulary_catalog.domain.workflows.manifest import RemediationWorkflow, Step

_CHANGE = "change"
_ACTS: Mapping[str, str] = {
    r"(?:patch|replace|apply|edit|label|annotate|set)": _CHANGE,
    r"create\s+-f": _CHANGE,
    r"delete": "delete",
    r"scale": "scale",
    r"uncordon": "uncordon",
    r"rollout\s+undo": "rollout-undo",
    r"rollout\s+restart": "rollout-restart",
}
_COMMAND = r"\bkubectl\s+(?:-n\s+\S+\s+)?"
_OPTIONS = r"(?:-\S+\s+)*"
_NAMED = re.compile(
    rf"{_COMMAND}{_OPTIONS}(?:rollout\s+\w+|set\s+\w+|[a-z]+)\s+{_OPTIONS}\"?(\$\{{)?([A-Za-z][A-Za-z_]*)"
)
_BUILT = re.compile(r"\bkind\"?:\s*\"([A-Za-z]+)\"")
_KINDS_OF_PATTERN = re.compile(r"^\^\(([a-z|]+)\)/")
_SHORT = {"pvc": "persistentvolumeclaim", "pv": "persistentvolume", "pdb": "poddisruptionbudget"}
_UNINFLECTED = ("ingress",)
_WORKLOADS = ("deployment", "statefulset", "daemonset")


def acts(workflow: RemediationWorkflow) -> set[tuple[str, str]]:
    """What all steps do; the way back is left out."""
    kinds = {"NODE": ("node",), "WORKLOAD": _WORKLOADS}
    kinds |= {each.name: found for each in workflow.spec.parameters if (found := _pattern_kinds(each.pattern))}
    return {act for step in workflow.spec.steps for act in _step_acts(step, kinds)}


def _step_acts(step: Step, kinds: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, str]]:
    verbs = {verb for sign, verb in _ACTS.items() if re.search(rf"{_COMMAND}{sign}\b", step.command)}
    named = set(_kinds(step.command, kinds))
    return ((verb, kind) for verb in verbs for kind in named)


def _kinds(command: str, kinds: Mapping[str, Iterable[str]]) -> Iterator[str]:
    for variable, word in _NAMED.findall(command):
        if variable:
            yield from kinds.get(word, ())
        else:
            name = word.casefold()
            plural = re.sub(r"ies$", "y", name) if name.endswith("ies") else name.removesuffix("s")
            yield _SHORT.get(name, name if name in _UNINFLECTED else plural)
    for kind in _BUILT.findall(command):
        yield kind.casefold()


def _pattern_kinds(pattern: str | None) -> tuple[str, ...]:
    found = _KINDS_OF_PATTERN.match(pattern or "")
    return tuple(found[1].split("|")) if found else ()
