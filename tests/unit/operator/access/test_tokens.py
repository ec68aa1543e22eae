"""What is read from a bearer token before anybody has verified it."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.errors import NotAuthenticated
from formulary_operator.access.tokens import MAX_LENGTH, bearer_token, has_expired, is_for, refusal


def token(claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{payload}.c2ln"


@pytest.mark.parametrize("header", ["Bearer abc.def.ghi", "bearer abc.def.ghi", "BEARER   abc.def.ghi"])
def test_the_token_of_the_one_header_is_taken(header: str) -> None:
    assert bearer_token([header], audience="formulary") == "abc.def.ghi"


@pytest.mark.parametrize("headers", [[], [""]])
def test_a_call_without_a_token_is_told_how_to_get_one(headers: list[str]) -> None:
    with pytest.raises(NotAuthenticated, match=r"no token; .*kubectl create token SERVICEACCOUNT --audience catalog"):
        bearer_token(headers, audience="catalog")


@pytest.mark.parametrize(
    "headers",
    [
        ["Basic dXNlcjpwYXNz"],
        ["Bearer"],
        ["Bearer "],
        ["Bearer a b"],
        ["Bearer a,b"],
        ["Bearer a\x00b"],
        ["Bearer ü"],
        ["abc.def.ghi"],
        ["Bearer " + "a" * (MAX_LENGTH + 1)],
        ["Bearer one", "Bearer two"],
        ["Bearer one", "Bearer one"],
    ],
)
def test_anything_else_is_refused_without_being_repeated(headers: list[str]) -> None:
    with pytest.raises(NotAuthenticated) as refused:
        bearer_token(headers, audience="formulary")
    assert refused.value.problem == "invalid_request"
    secrets = [header.partition(" ")[2] or header for header in headers if header.strip() != "Bearer"]
    assert not any(secret in str(refused.value) for secret in secrets)


@pytest.mark.parametrize(
    ("claims", "expired"),
    [({"exp": 99}, True), ({"exp": 100.0}, True), ({"exp": 101}, False), ({"exp": 10**400}, False), ({}, False)],
)
def test_a_token_says_when_it_expires(claims: Any, expired: bool) -> None:
    assert has_expired(token(claims), now=100) is expired


@pytest.mark.parametrize(
    ("claims", "ours"),
    [
        ({"aud": ["vault", "formulary"]}, True),
        ({"aud": "formulary"}, True),
        ({"aud": ["vault"]}, False),
        ({"aud": "formulary-test"}, False),
        ({"aud": None}, False),
        ({}, False),
    ],
)
def test_a_token_says_for_whom_it_is(claims: Any, ours: bool) -> None:
    assert is_for(token(claims), audience="formulary") is ours


@pytest.mark.parametrize("garbage", ["garbage", "a.b.c", "formulary", "e30.e30", "a.b.c.d"])
def test_what_is_no_jwt_is_for_nobody(garbage: str) -> None:
    assert not is_for(garbage, audience="formulary")


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 99, "aud": ["formulary"]}, "has expired"),
        ({"exp": 101, "aud": ["vault"]}, "not for the audience formulary"),
        ({"exp": 101, "aud": "vault"}, "not for the audience formulary"),
        ({"exp": 101, "aud": "formulary"}, "not valid here"),
        ({}, "not valid here"),
    ],
)
def test_a_refusal_gives_the_likely_reason(claims: Any, reason: str) -> None:
    assert reason in str(refusal(token(claims), audience="formulary", now=100))


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=4
)


@given(st.one_of(st.text(), st.builds(token, _JSON | st.dictionaries(st.sampled_from(["exp", "aud", "x"]), _JSON))))
def test_no_token_is_too_odd_to_be_refused(text: str) -> None:
    assert has_expired(text, now=100) in (True, False)
    assert is_for(text, audience="formulary") in (True, False)
    assert str(refusal(text, audience="formulary", now=100)).startswith("the token ")
