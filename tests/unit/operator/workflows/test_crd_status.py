"""What the operator reports fits the status of the CRD, so that nothing of it is pruned."""

import pytest

from formulary_operator.api.crds import CRDS
from formulary_operator.workflows.status import wanted_status
from formulary_operator.workflows.validation_result import ConditionReason, ValidationResult
from support.manifest import workflow
from support.structural import validator

NOW = "2026-08-22T10:00:00Z"
SERVED = ValidationResult(
    reason=ConditionReason.SERVED,
    message="m",
    version_id="wf_ver_0",
    content_hash="0",
    model_id="bundled@1",
    not_embedded="",
)


@pytest.mark.parametrize(
    "finding", [SERVED, *(ValidationResult(reason=reason, message="m") for reason in ConditionReason)], ids=str
)
def test_every_finding_makes_a_status_that_the_api_server_keeps_whole(finding: ValidationResult) -> None:
    document = workflow("a")
    document["metadata"]["generation"] = 3
    status = wanted_status(document, finding, now=NOW)
    kept = {field: value for field, value in status.items() if value is not None}
    validator(CRDS["kubernaut.ai_remediationworkflows.yaml"].definition(), "status").validate(kept)
    assert kept["conditions"][0]["reason"] == finding.reason
