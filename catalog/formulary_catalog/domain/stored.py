"""Workflows and their versions as the store knows them. The store reads them, the operator compares them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from formulary_catalog.domain.runs.run import WorkflowOutcome


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


Missing = tuple[str, str, str]
"""Namespace, name and uid of an object that the catalog serves and the cluster no longer lists."""
