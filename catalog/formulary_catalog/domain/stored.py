"""Workflows, their versions and what came of their runs, as the store knows them.

The store reads them, services answer with them, the operator compares them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOutcome:
    """Runs that came to an end by themselves: how many went well and badly, and how long those took that went well.

    Without any, nothing is known, and nothing is made up.
    """

    succeeded: int = 0
    failed: int = 0
    median_seconds: float | None = None

    @property
    def success_rate(self) -> float | None:
        """The share of runs that went well, 0..1; None without runs."""
        runs = self.succeeded + self.failed
        return round(self.succeeded / runs, _DIGITS) if runs else None

    @property
    def median_duration_seconds(self) -> float | None:
        """How long a run usually takes; None unless one went well."""
        return None if self.median_seconds is None else round(self.median_seconds, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """One version of a workflow; `status` is Active, Disabled or Superseded. `suspended` is said of the workflow.

    `ambiguous`: another namespace that the caller may see has an allowed workflow of that name. `outcome` is that of
    its runs.
    """

    version_id: str
    namespace: str
    name: str
    version: str
    status: str
    ambiguous: bool
    document: Mapping[str, Any] = field(repr=False)
    outcome: WorkflowOutcome
    suspended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One version in a workflow's history."""

    version: str
    version_id: str
    status: str
    document: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWorkflow:
    """A current workflow as the store knows it; `status` is Active or Disabled."""

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
