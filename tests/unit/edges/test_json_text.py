"""JSON as it arrives: how deep it may be, and what a member that is given twice means."""

import time

import pytest

from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.json_text import MAX_DEPTH, nested_too_deep, parsed


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, False),
        ("[" * (MAX_DEPTH + 1), True),
        ('{"a":[' * 17, True),
        ("[]" * 1000, False),
        ('"' + "[" * 1000 + '"', False),
        (r'"\"' + "[" * 1000 + '"', False),
        (r'"\\"' + "[" * 1000, True),
        ('"unfinished' + "[" * 1000 + "\\", False),
        ('"\n\\\n"' + "[" * 1000, True),
    ],
)
def test_depth_is_counted_outside_of_strings(text: str, deep: bool) -> None:
    assert nested_too_deep(text.encode()) is deep


@pytest.mark.parametrize("text", ['\\"' * 32_000, '"' + '\\"' * 32_000 + "\\", '"' * 65_535, "[" * 65_535])
def test_counting_depth_takes_no_longer_for_hostile_text(text: str) -> None:
    begun = time.perf_counter()
    nested_too_deep(text.encode())

    assert time.perf_counter() - begun < 10  # minutes, if each quote were looked at for each before it


def test_a_second_meta_counts_where_the_first_one_names_no_incident() -> None:
    first = '{"_meta": {"progressToken": 1}, "_meta": {"kubernaut.ai/remediation-id": "rr-1"}}'
    assert parsed(first) == {"_meta": {"kubernaut.ai/remediation-id": "rr-1"}}
    with pytest.raises(InvalidInput, match="a member twice"):
        parsed('{"_meta": {"kubernaut.ai/remediation-id": "rr-1"}, "_meta": {"progressToken": 1}}')
