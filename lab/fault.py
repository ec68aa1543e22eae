"""A fault: how to bring it about, what an agent would see of it, and how one knows that it is gone.

One file each in `lab/faults`. Snippets are bash, run beside the cluster with `lab/functions.sh`: `k` is kubectl in the
namespace of the fault.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

FAULTS = Path(__file__).parent / "faults"
Snippet = Annotated[str, Field(min_length=1)]
Part = Literal["fit", "judge"]
_JUDGED_OF_TEN = 5


class Alert(BaseModel):
    """The alert as kube-prometheus sends it; labels of the subject alone, scraping adds others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    severity: Literal["critical", "warning", "info"]
    labels: Mapping[str, str] = {}
    summary: str
    description: str


class Fault(BaseModel):
    """One fault. `right` may heal it, nothing else; `harmful` are plausible and wrong."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: str = Field(description="Faults of one kind are in one part of the evidence.")
    what: str
    namespace: str
    scope: Literal["namespace", "cluster"] = Field(
        default="namespace", description="Faults of a cluster are tried alone, others beside each other."
    )
    target: str = Field(pattern="^[A-Z][A-Za-z]+/[a-z0-9][-a-z0-9.]*$")
    environment: str = "staging"
    severity: Literal["critical", "high", "medium", "low"] = "high"
    signal: str
    alert: Alert
    manifests: str = ""
    inject: str = Field(default="", description="What breaks it, once the manifests are healthy.")
    shown: Snippet = Field(description="Succeeds once the fault can be seen.")
    evidence: Sequence[str] = Field(description="Commands of an agent, `kubectl` of the namespace.")
    root_cause: str
    healed: Snippet = Field(description="Succeeds when the cluster, not the run, says that all is well.")
    remedy: str = Field(default="", description="What a person would type; proves that `healed` can hold.")
    right: Sequence[str]
    harmful: Sequence[str] = ()
    facts: Mapping[str, str] = Field(default={}, description="Values of parameters that an agent finds out.")
    values: Mapping[str, Mapping[str, str]] = Field(default={}, description="Those of one workflow alone.")
    clean_up: str = ""

    @property
    def part(self) -> Part:
        """Whether its kind is for fitting or for judging, by a hash of the kind that nobody chose."""
        return "judge" if hashlib.sha256(self.kind.encode()).digest()[0] % 10 < _JUDGED_OF_TEN else "fit"

    def parameters(self, workflow: str, wanted: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """The values of a workflow's parameters, as far as an agent could know them."""
        known = {"NAMESPACE": self.namespace, **self.facts, **self.values.get(workflow, {})}
        return {each["name"]: known[each["name"]] for each in wanted if each["name"] in known}


def read_faults(names: Sequence[str] = ()) -> list[Fault]:
    """All faults by name, or these. Raises KeyError for a name that none has, ValueError for a broken file."""
    faults = {}
    for path in sorted(FAULTS.glob("*.yaml")):
        faults[path.stem] = Fault.model_validate({"name": path.stem, **yaml.safe_load(path.read_text())})
    return [faults[name] for name in names] if names else list(faults.values())
