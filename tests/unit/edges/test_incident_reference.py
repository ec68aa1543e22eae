"""How a call names its incident, on every edge (DESIGN section 6)."""

import pytest
from starlette.datastructures import Headers

from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.edges.calls.incident import context_reference
from formulary_catalog.errors import ContextError
from formulary_catalog.operations.json_text import META_KEY


def test_an_incident_is_read_from_headers_and_meta() -> None:
    headers = Headers({"x-remediation-id": " rr-1 ", "x-aianalysis": "shop/checkout"})

    assert context_reference(headers=headers, meta={META_KEY: "rr-1"}) == ContextReference(
        remediation_id="rr-1", analysis="shop/checkout", meta_remediation_id="rr-1"
    )


def test_a_blank_or_absent_incident_is_none() -> None:
    assert not context_reference(headers=Headers({"x-remediation-id": "  ", "x-aianalysis": ""}), meta={META_KEY: None})
    assert not context_reference(headers=None)


@pytest.mark.parametrize("value", ["x" * 254, "rr\n1", "rr-ü", "rr\0", "\u202err"])
def test_an_odd_incident_fails_closed_without_being_echoed(value: str) -> None:
    with pytest.raises(ContextError) as refused:
        context_reference(headers=None, meta={META_KEY: value})

    assert value not in str(refused.value)


def test_an_incident_that_is_no_text_fails_closed() -> None:
    with pytest.raises(ContextError, match="is not text"):
        context_reference(headers=None, meta={META_KEY: ["rr-1"]})


def test_a_header_repeated_with_another_value_fails_closed() -> None:
    repeated = Headers(raw=[(b"x-remediation-id", b"rr-1"), (b"x-remediation-id", b"rr-2")])

    with pytest.raises(ContextError, match="X-Remediation-Id is sent 2 times"):
        context_reference(headers=repeated)
