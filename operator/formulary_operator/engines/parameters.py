"""What a run is given: facts about it and the values of the workflow's parameters, as text.

Each engine calls it to build its object, `runs.plan` for the Secret of sensitive values. Tekton and Argo replace
placeholders in values: a value that holds one is refused here, not passed on changed. Pure.
"""

import json
from collections.abc import Iterator
from typing import Any

from formulary_catalog.errors import InvalidInput
from formulary_operator.engines.config import unrunnable
from formulary_operator.engines.plan import RunPlan

FACT_PREFIX = "FORMULARY_"
MAX_VALUE_BYTES = 100_000
"""Linux takes 128 KiB for one variable of the environment, its name included."""

_TARGET_RESOURCE = "TARGET_RESOURCE"


def facts(plan: RunPlan) -> dict[str, str]:
    """What every run is given in addition to its parameters, empty where it is not known.

    `TARGET_RESOURCE` (`namespace/kind/name`) is what bundles of the existing ecosystem read.
    """
    known = {
        f"{FACT_PREFIX}INVOCATION_ID": plan.invocation_id,
        f"{FACT_PREFIX}REMEDIATION_ID": plan.remediation_id,
        f"{FACT_PREFIX}TARGET_KIND": plan.target.kind,
        f"{FACT_PREFIX}TARGET_NAME": plan.target.name,
        f"{FACT_PREFIX}TARGET_NAMESPACE": plan.target.namespace,
        _TARGET_RESOURCE: str(plan.target),
    }
    return {name: text_of(value, name=name) for name, value in known.items()}


def parameter_names(plan: RunPlan) -> list[str]:
    """Names of all parameters, declared or given.

    Raises:
        NotInvocable: one is the name of a fact, which nobody may set.
    """
    declared = [parameter.name for parameter in plan.workflow.spec.parameters]
    names = sorted({*declared, *plan.values, *plan.sensitive})
    for name in names:
        if name.startswith(FACT_PREFIX) or name == _TARGET_RESOURCE:
            raise unrunnable(plan.workflow, f"parameter {name} has a name that is set for every run; rename it")
    return names


def literal_parameters(plan: RunPlan, *, engine: str, placeholder: str) -> Iterator[tuple[str, Any]]:
    """Facts and parameters for an engine that writes them into its objects and fills in placeholders.

    Raises:
        NotInvocable: a parameter is sensitive, or has the name of a fact.
        InvalidInput: the engine would replace a part of a value.
    """
    if plan.sensitive:
        names = ", ".join(sorted(plan.sensitive))
        raise unrunnable(
            plan.workflow,
            f"{engine} would show the sensitive values of {names} to everybody who can read its objects; use the "
            "engine job, or let the workflow read a Secret of its own",
        )
    parameter_names(plan)
    for name, value in (facts(plan) | dict(plan.values)).items():
        parts = value if isinstance(value, list) else [value]
        texts = [text_of(part, name=name) for part in parts]
        if any(placeholder in text for text in texts):
            raise InvalidInput(f"{name}: holds {placeholder!r}, which {engine} would replace; leave it out", field=name)
        yield name, texts if isinstance(value, list) else texts[0]


def text_of(value: Any, *, name: str) -> str:
    """A text as it is, all else as compact JSON, so that a boolean is `true` or `false`.

    Raises:
        InvalidInput: the environment of a process cannot hold it.
    """
    shown = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    try:
        size = len(shown.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{name}: is no valid Unicode text; correct it", field=name) from None
    if "\0" in shown:
        raise InvalidInput(f"{name}: must not contain the NUL character", field=name)
    if size > MAX_VALUE_BYTES:
        raise InvalidInput(f"{name}: has {size} bytes, at most {MAX_VALUE_BYTES} are allowed; shorten it", field=name)
    return shown
