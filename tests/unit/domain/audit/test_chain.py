"""The shape of the trail: one JSON text for a value, findings that name a place, keys, and what a replay says."""

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from formulary_catalog.domain.audit.chain import (
    GENESIS,
    Head,
    IntegrityFinding,
    Mark,
    Problem,
    StoredEvent,
    digest,
)
from formulary_catalog.domain.audit.checkpoint import PublicKey, SigningKey
from formulary_catalog.domain.audit.verification import Replay, verify_trace
from formulary_catalog.domain.canonical_json import canonical_json
from support.trail import NOON, chain, stored


def test_the_digest_is_that_of_the_text_as_utf_8() -> None:
    assert digest("ü") == hashlib.sha256("ü".encode()).hexdigest()


def test_an_event_reads_what_its_body_says() -> None:
    event = stored("t", seq=1, previous=GENESIS, text="x")
    assert event.payload == {"caller": "agent", "text": "x"}
    assert event.at.isoformat() == "2026-01-01T12:00:00+00:00"


@pytest.mark.parametrize("body", ["", "[]", "{", '{"at":1}', '{"at":"yesterday"}', '{"payload":7}'])
def test_a_damaged_event_can_still_be_looked_at(body: str) -> None:
    event = StoredEvent(trace_id="t", seq=1, kind="k", caller="c", search_id="", body=body, hash="")
    assert event.at.year == 1970
    assert event.payload in ({}, 7)


@pytest.mark.parametrize(
    ("finding", "place"),
    [
        (IntegrityFinding(problem=Problem.EDITED, message="m", trace_id="t", seq=3, last=3), "event 3"),
        (IntegrityFinding(problem=Problem.MISSING, message="m", trace_id="t", seq=3, last=5), "events 3 to 5"),
        (IntegrityFinding(problem=Problem.DROPPED, message="m", trace_id="t"), ""),
        (IntegrityFinding(problem=Problem.CHECKPOINT_EDITED, message="m", seq=2, last=2), "checkpoint 2"),
    ],
)
def test_a_finding_names_its_place(finding: IntegrityFinding, place: str) -> None:
    assert finding.place == place


@pytest.mark.parametrize(
    ("problem", "failing"),
    [
        (Problem.MALFORMED, "schema_valid"),
        (Problem.COLUMN_EDITED, "schema_valid"),
        (Problem.EDITED, "hash_chain_valid"),
        (Problem.REWRITTEN, "hash_chain_valid"),
        (Problem.HEAD_EDITED, "hash_chain_valid"),
        (Problem.CHECKPOINT_EDITED, "hash_chain_valid"),
        (Problem.MISSING, "structure_valid"),
        (Problem.REORDERED, "structure_valid"),
        (Problem.DROPPED, "structure_valid"),
    ],
)
def test_each_problem_fails_one_check(problem: Problem, failing: str) -> None:
    replay = Replay(findings=(IntegrityFinding(problem=problem, message="m"),), event_count=1, trace_count=1)
    assert (replay.status, replay.passed, replay.error_count) == ("FAIL", False, 1)
    assert [name for name, holds in replay.checks.items() if not holds] == [failing]


def test_without_findings_every_check_holds() -> None:
    replay = Replay(findings=(), event_count=1, trace_count=1)
    assert (replay.status, set(replay.checks.values())) == ("PASS", {True})


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": 1},
        {"at": "2026-01-01"},
        {"kind": 1},
        {"payload": []},
        {"seq": True},
        {"seq": 0},
        {"seq": 1.0},
        {"trace_id": None},
    ],
)
def test_a_body_that_is_no_event_is_malformed_whatever_its_hash_says(changes: dict[str, object]) -> None:
    (event,) = chain("t", ["x"])
    body = canonical_json({**event.content, **changes})
    bent = StoredEvent(trace_id="t", seq=1, kind="details", caller="agent", search_id="", body=body, hash=digest(body))
    (finding,) = verify_trace("t", [bent], head=Head(seq=1, hash=bent.hash, at=NOON))
    assert (finding.problem, finding.place) == (Problem.MALFORMED, "event 1")


def test_what_was_vouched_for_before_a_trace_expired_is_not_missed() -> None:
    (event,) = chain("t", ["x"])
    before = [Mark(1, 9, "1" * 64), Mark(2, 9, "1" * 64, expired=True)]
    assert verify_trace("t", [], head=None, marks=before) == ()
    assert verify_trace("t", [event], head=Head(seq=1, hash=event.hash, at=NOON), marks=before) == ()
    after = [*before, Mark(3, 1, event.hash)]
    (finding,) = verify_trace("t", [], head=None, marks=after)
    assert finding.problem is Problem.DROPPED


def test_what_expired_must_be_what_was_vouched_for() -> None:
    for dropped in (Mark(2, 8, "1" * 64, expired=True), Mark(2, 9, "2" * 64, expired=True)):
        (finding,) = verify_trace("t", [], head=None, marks=[Mark(1, 9, "1" * 64), dropped])
        assert (finding.problem, finding.last) == (Problem.REWRITTEN, 9)
    later = Mark(2, 12, "3" * 64, expired=True)
    assert verify_trace("t", [], head=None, marks=[Mark(1, 9, "1" * 64), later]) == ()


def test_a_head_that_makes_a_trace_look_older_is_found() -> None:
    (event,) = chain("t", ["x"])
    (finding,) = verify_trace("t", [event], head=Head(seq=1, hash=event.hash, at="2020-01-01T00:00:00.000000Z"))
    assert (finding.problem, finding.place) == (Problem.HEAD_EDITED, "event 1")


def test_a_key_survives_its_file_and_is_named_by_its_public_half() -> None:
    key = SigningKey.generate()
    again = SigningKey.load(key.pem())
    (public,) = PublicKey.load(key.public.pem())
    assert key.public.id == again.public.id == public.id
    der = base64.b64decode("".join(key.public.pem().decode().splitlines()[1:-1]))
    assert public.id == hashlib.sha256(der[-32:]).hexdigest()[:16]


def test_a_file_of_public_keys_may_hold_those_of_former_days() -> None:
    keys = [SigningKey.generate().public for _ in range(3)]
    loaded = PublicKey.load(b"# old and new\n" + b"\n".join(key.pem() for key in keys))
    assert [key.id for key in loaded] == [key.id for key in keys]


def test_what_is_no_key_is_refused() -> None:
    other = generate_private_key(SECP256R1())
    foreign = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    key = load_pem_private_key(SigningKey.generate().pem(), password=None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    for pem in (b"", b"nonsense", foreign, encrypted, SigningKey.generate().public.pem()):
        with pytest.raises(ValueError, match=r"."):
            SigningKey.load(pem)
    foreign_public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for pem in (b"", b"nonsense", foreign_public, foreign_public + SigningKey.generate().public.pem()):
        with pytest.raises(ValueError, match=r"."):
            PublicKey.load(pem)


def test_an_auditor_needs_no_more_than_sha256_to_follow_a_chain() -> None:
    previous = GENESIS
    for event in chain("t", ["a", "b", "c"]):
        assert json.loads(event.body)["previous"] == previous
        previous = hashlib.sha256(event.body.encode()).hexdigest()
        assert previous == event.hash
