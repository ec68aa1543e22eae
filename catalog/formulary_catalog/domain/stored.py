"""Workflows, their versions and what came of their runs, as the store knows them.

The store reads them, services answer with them, the operator compares them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from formulary_catalog.domain.workflows.identity import workflow_id as qualified_id

FEWEST_RUNS = 5
"""With fewer runs whose outcome is known there is no rate."""
_Z = 1.96
"""Of the interval that holds the true share with 95 % confidence."""
_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOutcome:
    """Runs that came to an end by themselves: how many ended well and badly, how long those took that ended well, and
    how many helped.

    Without any, nothing is known, and nothing is made up.
    """

    succeeded: int = 0
    failed: int = 0
    median_seconds: float | None = None
    helped: int = 0
    verified: int = 0
    """Runs whose outcome is known."""

    @property
    def success_rate(self) -> float | None:
        """The share of runs that helped, 0..1; None while too few have a known outcome."""
        return success_rate(self.helped, self.verified)

    @property
    def success_interval(self) -> list[float] | None:
        """Between which shares the true one lies, with 95 % confidence; None where there is no rate."""
        return None if self.success_rate is None else [*wilson_interval(self.helped, self.verified)]

    @property
    def median_duration_seconds(self) -> float | None:
        """How long a run usually takes; None unless one went well."""
        return None if self.median_seconds is None else round(self.median_seconds, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """One version of a workflow, without its manifest; `status` is Active, Disabled or Superseded.

    `ambiguous`: another namespace that the caller may see has an allowed workflow of that name. `outcome` is that of
    its runs.
    """

    version_id: str
    namespace: str
    name: str
    version: str
    status: str
    ambiguous: bool
    outcome: WorkflowOutcome

    @property
    def workflow_id(self) -> str:
        """What the caller should call the workflow."""
        return qualified_id(namespace=self.namespace, name=self.name, ambiguous=self.ambiguous)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredManifest(StoredVersion):
    """A version with its manifest; `changed_at` is when it came to its status."""

    document: Mapping[str, Any] = field(repr=False)
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWorkflow:
    """The current version of a workflow as it was written, to compare a `CatalogEntry` with; Active or Disabled.

    Loaders and operators compare the whole catalog: this is all that decides whether an entry has to be written again.
    `owner` is the uid of the object that it came from, `model_id` the model of the vector in use; empty without.
    """

    namespace: str
    name: str
    version: str
    version_id: str
    content_hash: str
    status: str
    source: str
    owner: str
    index_hash: str
    model_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedWorkflow:
    """An object that is not taken into the catalog as it is, in the words of its status.

    `version` is the one that it names, empty if it names none. An earlier content may still be served.
    """

    namespace: str
    name: str
    version: str
    reason: str
    message: str
    since: datetime


Missing = tuple[str, str, str]
"""Namespace, name and uid of an object that the catalog serves and the cluster no longer lists."""


def success_rate(helped: int, runs: int) -> float | None:
    """The share of runs that helped, of those whose outcome is known; None below the fewest that say anything."""
    return round(helped / runs, _DIGITS) if runs >= FEWEST_RUNS else None


def wilson_interval(helped: int, runs: int) -> tuple[float, float]:
    """The Wilson interval of that share; `runs` is at least 1."""
    share, square = helped / runs, _Z * _Z
    middle = (share + square / (2 * runs)) / (1 + square / runs)
    spread = _Z / (1 + square / runs) * math.sqrt(share * (1 - share) / runs + square / (4 * runs * runs))
    return round(max(0.0, middle - spread), _DIGITS), round(min(1.0, middle + spread), _DIGITS)


def success_text(rate: float, interval: Sequence[float] | None, *, runs: int) -> str:
    """A success rate with what is behind it: `80% of 20 runs (58% to 92%)`."""
    bounds = f" ({interval[0]:.0%} to {interval[1]:.0%})" if interval else ""
    return f"{rate:.0%} of {runs} runs{bounds}"
