"""The rule that a broken pattern stands for is said in words, and the words ask for what the pattern does."""

import re
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, StringConstraints, TypeAdapter, ValidationError

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.governance.contract import ContractManifest
from formulary_catalog.domain.incidents import AIAnalysis
from formulary_catalog.domain.patterns import IN_WORDS, RUN_ID
from formulary_catalog.domain.runs.run import id_of_request
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.errors import InvalidManifest
from formulary_operator.api.invocation import ApprovalSpec, InvocationSpec
from support import manifest

LOWER = set(string.ascii_lowercase + string.digits)
HEX = set("0123456789abcdef")
HOURS = {f"{hour:02}:{minute:02}" for hour in range(24) for minute in range(60)}
ODD = "aZ09-._@:/ \n\té"


def is_subdomain(text: str) -> bool:
    dots = [place for place, character in enumerate(text) if character == "."]
    return has_ends(text) and {*text} <= LOWER | {*"-."} and all({text[p - 1], text[p + 1]} <= LOWER for p in dots)


def has_ends(text: str) -> bool:
    return bool(text) and {text[0], text[-1]} <= LOWER


def is_email(text: str) -> bool:
    _, _, domain = text.partition("@")
    is_spaceless = not any(map(str.isspace, text))
    return is_spaceless and text.count("@") == 1 and text[0] != "@" and "." in domain[1:-1]


DURATIONS = {
    f"{number}{unit}"
    for unit, numbers in {"s": range(10_000), "m": range(1, 100), "h": range(1, 7)}.items()
    for number in numbers
}
OF_A_MINUTE_OR_MORE = {each for each in DURATIONS if not each.endswith("s") or int(each[:-1]) >= 60}
READ: Mapping[str, Callable[[str], bool]] = {
    "must consist of lower-case letters (a to z), digits, '-' and '.', with a letter or digit at both ends and on both "
    "sides of each '.'": is_subdomain,
    "must consist of lower-case letters (a to z), digits and '-', with a letter or digit at both ends": lambda text: (
        has_ends(text) and {*text} <= LOWER | {"-"}
    ),
    "must consist of letters (A to Z, a to z) and digits and begin with a capital, such as RestartPod": lambda text: (
        text[:1] in {*string.ascii_uppercase} and {*text} <= {*string.ascii_letters, *string.digits}
    ),
    "must be an e-mail address: without spaces, one '@', and a '.' inside the part after it": is_email,
    "must be a time of day as HH:MM, from 00:00 to 23:59": lambda text: text in HOURS,
    "must be a time of day as HH:MM, from 00:00 to 24:00": lambda text: text in HOURS | {"24:00"},
    "must be the id of a run: 'inv-' and 20 hexadecimal digits (0 to 9, a to f)": lambda text: (
        text[:4] == "inv-" and len(text) == 24 and {*text[4:]} <= HEX
    ),
    "must be a digest, 'sha256:' and 64 hexadecimal digits (0 to 9, a to f), or empty": lambda text: (
        not text or (text[:7] == "sha256:" and len(text) == 71 and {*text[7:]} <= HEX)
    ),
    "must be a duration: 0s to 9999s, 1m to 99m or 1h to 6h, without leading zeros": lambda text: text in DURATIONS,
    "must be a duration of a minute or more: 60s to 9999s, 1m to 99m or 1h to 6h, without leading zeros": lambda text: (
        text in OF_A_MINUTE_OR_MORE
    ),
}
"""The words, as a reader takes them."""


@st.composite
def near(draw: st.DrawFn, pattern: str) -> str:
    """A text that matches, or one that differs from it in a character or two."""
    text = draw(st.from_regex(pattern, alphabet=string.printable))
    for _ in range(draw(st.integers(0, 2))):
        place, width = draw(st.integers(0, len(text))), draw(st.integers(0, 1))
        text = text[:place] + draw(st.sampled_from(["", *ODD])) + text[place + width :]
    return text


@pytest.mark.parametrize("pattern", IN_WORDS)
@given(data=st.data())
def test_the_words_ask_for_what_the_pattern_does(pattern: str, data: st.DataObject) -> None:
    text = data.draw(near(pattern) | st.text(ODD, max_size=8))
    try:
        TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)]).validate_python(text)
    except ValidationError:
        matches = False
    else:
        matches = True
    assert READ[IN_WORDS[pattern]](text) is matches


@pytest.mark.parametrize("model", [RemediationWorkflow, AIAnalysis, ContractManifest, InvocationSpec, ApprovalSpec])
def test_every_pattern_that_a_person_can_break_has_words(model: type[BaseModel]) -> None:
    assert {*patterns(model.__pydantic_core_schema__)} <= {*IN_WORDS}


def test_every_pattern_with_words_belongs_to_a_field() -> None:
    found = {
        pattern
        for model in (RemediationWorkflow, ContractManifest, ApprovalSpec)
        for pattern in patterns(model.__pydantic_core_schema__)
    }
    assert found == {*IN_WORDS}


def test_ids_of_runs_match_their_pattern() -> None:
    made = (id_of_request(caller="agent", idempotency_key=key) for key in ("", "a"))
    assert all(re.fullmatch(RUN_ID, each) for each in made)


def patterns(schema: Any) -> Iterator[str]:
    """All that texts of a model must match."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "str" and "pattern" in schema:
            yield schema["pattern"]
        for part in schema.values():
            yield from patterns(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from patterns(part)


@pytest.mark.parametrize(
    ("field", "document"),
    [
        ("metadata.name", manifest.workflow("Raise_Limit")),
        ("spec.actionType", manifest.workflow("raise", actionType="raise")),
        ("spec.maintainers.0.email", manifest.workflow("raise", maintainers=[{"name": "a", "email": "a at b"}])),
    ],
)
def test_who_breaks_a_pattern_is_told_the_rule_and_not_the_expression(field: str, document: dict[str, Any]) -> None:
    with pytest.raises(InvalidManifest) as refused:
        catalog_entry(document, source="w.yaml", default_namespace="formulary")
    (words,) = [words for words in READ if f"w.yaml: {field}: {words} (got '" in str(refused.value)]
    assert "^" not in str(refused.value)
    assert words
