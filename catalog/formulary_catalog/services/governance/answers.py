"""The answers of the governance tools."""

from typing import Literal

from pydantic import ConfigDict, Field

from formulary_catalog.domain.answers.catalog import Answer
from formulary_catalog.domain.governance.actions import EnforceResult
from formulary_catalog.domain.governance.gate import GateReport
from formulary_catalog.domain.governance.verdict import Verdict


class GateAnswer(Answer):
    """Risks of proposed actions."""

    gate_report: GateReport
    trace_id: str


class EnforceAnswer(Answer):
    """What a contract says to actions."""

    enforce_result: EnforceResult
    trace_id: str


class VerdictAnswer(Answer):
    """The final decision, and the same as a page."""

    verdict: Verdict
    verdict_md: str
    trace_id: str


class ReplayChecks(Answer):
    """What was checked."""

    schema_valid: bool
    hash_chain_valid: bool
    structure_valid: bool


class ReplayReport(Answer):
    """Whether a trace is as it was written."""

    model_config = ConfigDict(serialize_by_alias=True, populate_by_name=True)

    status: Literal["PASS", "FAIL"]
    passed: bool = Field(alias="pass")
    event_count: int
    error_count: int
    checks: ReplayChecks


class ReplayAnswer(Answer):
    """The result of a replay."""

    model_config = ConfigDict(serialize_by_alias=True)

    replay: ReplayReport
    trace_id: str
