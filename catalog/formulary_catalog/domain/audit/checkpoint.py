"""Checkpoints: what the heads of all traces were, chained to the checkpoint before, and signed.

The owner of the database can rewrite a trace and its head; not what a signed checkpoint said of it. A checkpoint is a
text: a few lines of its own, then one line for each trace that changed since the one before, sorted: its id as a JSON
string, the number of its newest event and the hash of that event. The hash of a checkpoint is the SHA-256 of its text;
the signature is Ed25519 over that hash as hexadecimal text.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from formulary_catalog.domain.audit.chain import GENESIS, CheckpointTime, IntegrityFinding, Mark, Problem, digest

_HEADING = re.compile(
    r"formulary checkpoint 1 (?P<kind>heads|expired)\n"
    r"id (?P<id>\d{1,18})\nat (?P<at>[0-9T:.Z-]{27})\nprevious (?P<previous>[0-9a-f]{64})\ntraces (?P<traces>\d{1,9})\n"
)
_HEADING_LINES = 5
_LINE = re.compile(r'(?P<trace>".*") (?P<seq>\d{1,18}) (?P<hash>[0-9a-f]{64})')
_SEEN = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")
_PUBLIC_KEY = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)


class CheckpointKind(StrEnum):
    """What the lines of a checkpoint are."""

    HEADS = "heads"
    """The newest events of traces."""
    EXPIRED = "expired"
    """What the newest events of traces were before the traces were dropped, their time being over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched:
    """One line: the newest event of a trace."""

    trace_id: str
    seq: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint as it is stored. Without a signature `key_id` and `signature` are empty."""

    id: int
    body: str
    previous: str
    hash: str
    key_id: str = ""
    signature: bytes = b""

    @property
    def traces(self) -> int:
        """For how many traces it vouches."""
        return self.body.count("\n") - _HEADING_LINES


@dataclass(frozen=True, slots=True)
class Seen:
    """A checkpoint that somebody has seen, in a log for example: it must still be there."""

    id: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> "Seen":
        """By number and hash, `7:0f3a…`.

        Raises:
            ValueError: the text names none.
        """
        if (named := _SEEN.fullmatch(text)) is None:
            raise ValueError(text)
        return cls(int(named[1]), named[2])


class SigningKey:
    """Signs checkpoints."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key())

    @classmethod
    def generate(cls) -> "SigningKey":
        """A new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, pem: bytes) -> "SigningKey":
        """The key in a PEM file.

        Raises:
            ValueError: there is no unencrypted Ed25519 private key in it.
        """
        try:
            key = load_pem_private_key(pem, password=None)
        except TypeError as error:
            raise ValueError("the key is encrypted") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError("the key is no Ed25519 key")
        return cls(key)

    def pem(self) -> bytes:
        """The key as a PEM file."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, hash_: str) -> bytes:
        """The signature of a checkpoint with this hash."""
        return self._key.sign(hash_.encode())


class PublicKey:
    """Checks signatures. `id` names the key: the first 16 hexadecimal digits of the SHA-256 of its 32 bytes."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        self.id = hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]

    @classmethod
    def load(cls, pem: bytes) -> "list[PublicKey]":
        """The keys in a PEM file; several, where keys have been replaced.

        Raises:
            ValueError: there is none, or one that is no Ed25519 key.
        """
        keys = [load_pem_public_key(block) for block in _PUBLIC_KEY.findall(pem)]
        found = [cls(key) for key in keys if isinstance(key, Ed25519PublicKey)]
        if not found or len(found) < len(keys):
            raise ValueError("the file holds something else than Ed25519 public keys")
        return found

    def pem(self) -> bytes:
        """The key as a PEM file."""
        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def verifies(self, checkpoint: Checkpoint) -> bool:
        """Whether the signature is by this key, over this hash."""
        try:
            self._key.verify(checkpoint.signature, checkpoint.hash.encode())
        except InvalidSignature:
            return False
        return True


def compose(
    *, kind: CheckpointKind, after: int, previous: str, at: datetime, lines: Iterable[Vouched], key: SigningKey | None
) -> Checkpoint:
    """The checkpoint after the one with the id `after` and the hash `previous`; without a key it is not signed."""
    listed = sorted(f"{json.dumps(line.trace_id, ensure_ascii=False)} {line.seq} {line.hash}\n" for line in lines)
    time = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    heading = f"formulary checkpoint 1 {kind}\nid {after + 1}\nat {time}\nprevious {previous}\ntraces {len(listed)}\n"
    body = heading + "".join(listed)
    hash_ = digest(body)
    return Checkpoint(
        id=after + 1,
        body=body,
        previous=previous,
        hash=hash_,
        key_id=key.public.id if key is not None else "",
        signature=key.sign(hash_) if key is not None else b"",
    )


class CheckpointCheck:
    """Verifies the chain of checkpoints while they pass by, with the public keys that their signatures may be by.

    The owner of the database can drop the newest checkpoints, and have what follows signed again: only those that were
    `seen` elsewhere show it. `newest` is the last sound checkpoint there is; `proven` the last one that was also seen
    elsewhere: up to it nothing can be missing.
    """

    def __init__(self, keys: Sequence[PublicKey] = (), *, seen: Iterable[Seen] = ()) -> None:
        self._seen: dict[int, set[str]] = {}
        for each in seen:
            self._seen.setdefault(each.id, set()).add(each.hash)
        self._keys: Mapping[str, PublicKey] = {key.id: key for key in keys}
        self._findings: list[IntegrityFinding] = []
        self._last: Checkpoint | None = None
        self._signed = False
        self.newest: CheckpointTime | None = None
        self.proven: CheckpointTime | None = None
        self.count = 0
        self.unsigned = 0
        self.unchecked = 0

    def add(self, checkpoint: Checkpoint) -> list[tuple[str, Mark]]:
        """Look at the next checkpoint, in the order of their ids; what it vouches for, by trace."""
        self.count += 1
        last_id, last_hash = (self._last.id, self._last.hash) if self._last is not None else (0, GENESIS)
        if checkpoint.id > last_id + 1:
            self._find(Problem.CHECKPOINT_MISSING, last_id + 1, "this is not there", to=checkpoint.id - 1)
        elif checkpoint.previous != last_hash:
            self._find(Problem.CHECKPOINT_EDITED, checkpoint.id, "this was written after another one than is there")
        self._last = checkpoint
        seen = self._seen.pop(checkpoint.id, set())
        if seen - {checkpoint.hash}:
            self._find(Problem.CHECKPOINT_EDITED, checkpoint.id, "another one was seen in its place")
        self._check_signature(checkpoint)
        vouched = _read(checkpoint)
        if vouched is None:
            self._find(Problem.CHECKPOINT_EDITED, checkpoint.id, "text, number and hashes do not belong together")
            return []
        self.newest = CheckpointTime(checkpoint.id, checkpoint.body.split("\n", 3)[2].removeprefix("at "))
        if checkpoint.hash in seen:
            self.proven = self.newest
        return vouched

    def finish(self, *, events: int) -> tuple[IntegrityFinding, ...]:
        """All findings, once every checkpoint has been added. `events` is how many there are to vouch for."""
        if self._keys and events and not self.count:
            self._find(Problem.CHECKPOINT_MISSING, 1, "there is a key, and events, and no checkpoint vouches for any")
        if self._keys and self.count and not self._signed:
            self._find(Problem.CHECKPOINT_UNSIGNED, 1, "none is signed, though there is a key", to=self.count)
        if self._seen:
            self._find(Problem.CHECKPOINT_MISSING, min(self._seen), "this was seen, and is gone", to=max(self._seen))
        return tuple(self._findings)

    def _check_signature(self, checkpoint: Checkpoint) -> None:
        if not checkpoint.signature:
            self.unsigned += 1
            if self._signed:
                self._find(Problem.CHECKPOINT_UNSIGNED, checkpoint.id, "this is not signed, and earlier ones are")
            return
        self._signed = True
        if not self._keys:
            self.unchecked += 1
            return
        key = self._keys.get(checkpoint.key_id)
        if key is None:
            self._find(
                Problem.CHECKPOINT_UNSIGNED, checkpoint.id, f"the key {checkpoint.key_id!r} is none of those given"
            )
        elif not key.verifies(checkpoint):
            self._find(Problem.CHECKPOINT_EDITED, checkpoint.id, "the signature is not by its key, over its hash")

    def _find(self, problem: Problem, id_: int, message: str, *, to: int = 0) -> None:
        self._findings.append(IntegrityFinding(problem=problem, message=message, seq=id_, last=max(id_, to)))


def _read(checkpoint: Checkpoint) -> list[tuple[str, Mark]] | None:
    """What a checkpoint vouches for; None if it is not as it was written."""
    heading = _HEADING.match(checkpoint.body)
    if (
        heading is None
        or digest(checkpoint.body) != checkpoint.hash
        or (int(heading["id"]), heading["previous"]) != (checkpoint.id, checkpoint.previous)
    ):
        return None
    lines = [_LINE.fullmatch(line) for line in checkpoint.body[heading.end() :].split("\n")[:-1]]
    expired = heading["kind"] == CheckpointKind.EXPIRED
    try:
        return [
            (json.loads(line["trace"]), Mark(checkpoint.id, int(line["seq"]), line["hash"], expired))
            for line in lines
            if line is not None
        ]
    except ValueError:
        return None
