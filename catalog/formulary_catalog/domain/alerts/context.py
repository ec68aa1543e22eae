"""The context of an alert: that of its target, and what its source takes from the alert where the target is silent.

`kernel/incidents` calls it for each call that names an alert. Labels of an alert are written by the authors of rules,
so they never change what the owners of the target say (DESIGN sections 6 and 15).
"""

from dataclasses import replace
from typing import Any

from formulary_catalog.domain.incidents import CONTEXT_DIMENSIONS, RequestContext
from formulary_catalog.domain.workflows.labels import fold, wire_name


def given_by(alert: RequestContext) -> frozenset[str]:
    """The dimensions that an alert gives, by fields of a context: no label of its target has to."""
    return frozenset(name for name in CONTEXT_DIMENSIONS if getattr(alert, name))


def context_of_alert(alert: RequestContext, *, target: RequestContext) -> RequestContext:
    """The context of a call for an alert. `alert` has what the source takes from it, `target` what its owners demand.

    Where both say something else, the owners count, and a note says so.
    """
    taken: dict[str, Any] = {}
    differ: list[str] = []
    for name in CONTEXT_DIMENSIONS:
        said, demanded = getattr(alert, name), getattr(target, name)
        if said and not demanded:
            taken[name] = said
        elif said and fold(said) != fold(demanded):
            differ.append(wire_name(name))
    labels = ", ".join(differ)
    note = f"the alert gives another {labels} than the labels of its target, which count" if differ else ""
    return replace(
        target,
        remediation_id=alert.remediation_id,
        signal_name=alert.signal_name,
        severity=alert.severity,
        alert=alert.alert,
        note="; ".join(filter(None, (target.note, note))),
        **taken,
    )
