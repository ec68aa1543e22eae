"""Texts and hashes that databases hold already: another byte in the canonical JSON would orphan what is stored."""

import math
from typing import Any

import pytest

from formulary_catalog.domain.audit.sealing import KeyedDigest, seal
from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.governance.actions import EnforceResult
from formulary_catalog.domain.governance.gate import GateDecision, GateReport, Risk, Severity
from formulary_catalog.domain.governance.verdict import verdict
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.run import digest, id_of_object, id_of_request
from formulary_catalog.domain.workflows.identity import content_hash
from formulary_operator.runs.plan import digest_of
from support.runs import request

VALUE: dict[str, Any] = {
    "ü": "naïve \u2028 \U0001f525 </script>",
    "b": [1, -0.0, 2.5, 1e21, 1e-7, 10**20, None, True],
    "a": {"z": '\x01\t"\\/', "Z": [], "": {}},
}
TEXT = (
    '{"a":{"":{},"Z":[],"z":"\\u0001\\t\\"\\\\/"},'
    '"b":[1,-0.0,2.5,1e+21,1e-07,100000000000000000000,null,true],"ü":"naïve \u2028 \U0001f525 </script>"}'
)


def test_keys_are_sorted_and_no_more_is_escaped_than_must_be() -> None:
    assert canonical_json(VALUE) == TEXT


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_has_no_canonical_text(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json([number])


def test_a_version_keeps_its_content_hash() -> None:
    found = content_hash(
        api_version="kubernaut.ai/v1alpha1", kind="RemediationWorkflow", namespace="ns", name="n", spec=VALUE
    )
    assert found == "f6c65219503290dfd5f88e7c8092f1821f3bfa5fd4a24707156fbb676f6c2b7b"


def test_a_run_keeps_its_ids_and_the_hash_of_its_request() -> None:
    assert id_of_request(caller="Jürgen", idempotency_key="k\u2028") == "inv-f27b76ffef0b589d83f8"
    assert id_of_object("0b5c") == "inv-febe3122d12558216b94"
    asked = request(key="k", secret={"TOKEN": "pässword"}, values=VALUE, timeout_seconds=90.5)
    assert asked.request_hash(salt="s") == "f8b571c9beae746ecd60effdd363b06d61deb56302463ee2b07576eed6b2682f"


def test_a_sensitive_value_keeps_its_digest() -> None:
    assert digest(VALUE, salt="s") == "sha256:13b983838eccb9e82bc322882a3c33f10d1ac6cb1d17d04aa6692a76c842bee2"


@pytest.mark.parametrize(
    ("message", "expected"),
    [("drops table ü", "dec_908698610d8be4bac3ce"), ("half a character: \ud83d", "dec_bf1a158de1982f667be8")],
)
def test_a_verdict_keeps_its_id(message: str, expected: str) -> None:
    gate = GateReport(
        decision=GateDecision.BLOCK, risks=(Risk(severity=Severity.CRITICAL, category="destructive", message=message),)
    )
    enforced = EnforceResult(contract_id="c@1", decision_summary="BLOCK", blocked_rule_ids=("r",), blocked_count=1)
    assert verdict(gate, enforced).decision_id == expected


def test_a_manifest_keeps_the_digest_that_people_approve() -> None:
    assert digest_of(VALUE) == "sha256:8ff1c96fd2f08ece2a7150735f360502fa66aa98dd6aadc22893a6fe2205086e"


def test_sealed_constraints_keep_their_text_and_digest_in_ascii() -> None:
    """What no database stores as it is, half a character, has a form in ASCII; so this text alone is escaped."""
    incident = RequestContext(
        namespace="shop",
        name="a",
        remediation_id="rr-1",
        custom_labels={"team": ("ü", "b")},
        strict_keys=frozenset({"team"}),
        detected_labels={"gitOps": "half \ud83d"},
    )
    sealed = seal(incident, strict_keys=frozenset({"cost"}))
    assert sealed is not None
    assert sealed.content == (
        '{"alert":"","business_category":"","cluster":"","custom_labels":{"team":["b","\\u00fc"]},'
        '"detected_labels":{"gitOps":"half \\ud83d"},"environment":"","name":"a","namespace":"shop","priority":"",'
        '"remediation_id":"rr-1","risk_tolerance":"","severity":"","signal_name":"","strict_keys":["cost","team"],'
        '"target_api_version":"","target_kind":"","target_name":"","target_namespace":"","target_node":"",'
        '"target_owners":[]}'
    )
    assert (
        KeyedDigest(b"k").of_labels({"team": frozenset({"ü", "b"})})
        == "hmac-sha256:381cb3752d6072d428698167ad30de165ffab48cd19f58422c9e97ec9e6fb0a9"
    )
