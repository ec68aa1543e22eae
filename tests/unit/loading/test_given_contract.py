"""A contract that somebody gives: what is around it, and where messages say that it is broken."""

import pytest

from formulary_catalog.errors import InvalidInput
from formulary_catalog.loading.manifests import given_contract

CONTRACT = """\
apiVersion: formulary.dev/v1alpha1
kind: GovernanceContract
metadata: {name: freeze}
spec:
  rules:
    - {id: freeze, effect: DENY}
"""
BROKEN = CONTRACT.replace("DENY", "NEVER")


@pytest.mark.parametrize(
    "text",
    [
        CONTRACT,
        f"{CONTRACT}---\n",
        f"---\n# Source: freeze.yaml\n---\n{CONTRACT}...\n",
        "\ufeff" + CONTRACT.replace("\n", "\r\n"),
    ],
)
def test_a_contract_is_read_whatever_empty_documents_are_around_it(text: str) -> None:
    entry = given_contract(text, name="manifest", default_namespace="shop")
    assert (entry.namespace, entry.name) == ("shop", "freeze")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (BROKEN, 6),
        (f"{BROKEN}---\n", 6),
        (f"---\n# Source: freeze.yaml\n---\n{BROKEN}", 9),
        (f"%YAML 1.1\n---\n# Nothing.\n%YAML 1.1\n---\n{BROKEN}", 11),
        ("\ufeff" + BROKEN.replace("\n", "\r\n"), 6),
    ],
)
def test_a_broken_field_is_named_with_its_line(text: str, line: int) -> None:
    with pytest.raises(InvalidInput, match=rf"^manifest: line {line}: spec\.rules\.0\.effect: "):
        given_contract(text, name="manifest", default_namespace="shop")


def test_a_broken_field_of_one_of_several_is_named_with_the_document_or_item() -> None:
    item = BROKEN.replace("\n", "\n    ").strip()
    for text, place in (
        (f"{CONTRACT}---\n{BROKEN}", "document 2"),
        (f"apiVersion: v1\nkind: List\nitems:\n  - {item}\n", "item 1"),
    ):
        with pytest.raises(InvalidInput, match=rf"^manifest \({place}\): spec\.rules\.0\.effect: "):
            given_contract(text, name="manifest", default_namespace="shop")
