"""Keys that encrypt sensitive input of runs. They are kept outside the database that holds what they encrypt."""

import base64
import binascii
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from formulary_catalog.errors import NotInvocable

KEY_BYTES = 32
_NONCE_BYTES = 12
_SETTING = "FORMULARY_INPUT_KEY_FILE"
_SALT = "aes-256-gcm:"


@dataclass(frozen=True, slots=True)
class InputKeys:
    """AES-256-GCM keys: the first one encrypts, every one decrypts, so that keys can be rotated.

    A ciphertext is bound to its run and to its purpose: in the row of another run it cannot be decrypted.
    """

    keys: Sequence[bytes] = field(default=(), repr=False)

    @classmethod
    def load(cls, text: str) -> "InputKeys":
        """The keys of a file: one key a line, 32 bytes in base64; the newest comes first.

        Raises:
            ValueError: there is no key, or a line is no key. The message does not repeat the line.
        """
        keys = [_key(line) for line in text.split()]
        if not keys:
            raise ValueError("it holds no key")
        return cls(keys)

    @staticmethod
    def generate() -> str:
        """A new key, as a line of a key file."""
        return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()

    def encrypt(self, text: str, *, run: str, purpose: str) -> bytes:
        """The nonce and the ciphertext of a text of a run.

        Raises:
            NotInvocable: there is no key.
        """
        if not self.keys:
            raise NotInvocable(
                "the run takes sensitive input, and there is no key to encrypt it with, so nothing was stored; the "
                f"administrator of Formulary names a key file in {_SETTING}, for the server and for the operator"
            )
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + AESGCM(self.keys[0]).encrypt(nonce, text.encode(), _bound_to(run, purpose))

    def decrypt(self, sealed: bytes, *, run: str, purpose: str) -> str:
        """The text that was encrypted for this run and this purpose.

        Raises:
            NotInvocable: no key decrypts it; the key was removed, or somebody changed the row.
        """
        nonce, ciphertext = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        for key in self.keys:
            try:
                return AESGCM(key).decrypt(nonce, ciphertext, _bound_to(run, purpose)).decode()
            except (InvalidTag, ValueError):  # another key's, or too short to be any
                continue
        raise NotInvocable(
            f"the sensitive input of {run} cannot be decrypted with the {len(self.keys)} keys of {_SETTING}; ask for a "
            "new run, and keep old keys in that file until the runs that they encrypted are over"
        )


NO_KEYS = InputKeys()


def sealed_values(keys: InputKeys, values: Mapping[str, Any], *, run: str) -> bytes:
    """Sensitive values of a run as they are stored."""
    return keys.encrypt(json.dumps(dict(values)), run=run, purpose="values")


def opened_values(keys: InputKeys, sealed: bytes, *, run: str) -> dict[str, Any]:
    """What `sealed_values` made unreadable."""
    values: dict[str, Any] = json.loads(keys.decrypt(sealed, run=run, purpose="values"))
    return values


def sealed_salt(keys: InputKeys, salt: str, *, run: str) -> str:
    """The salt of digests of sensitive values: who has the database alone cannot guess short values with it."""
    return _SALT + base64.b64encode(keys.encrypt(salt, run=run, purpose="salt")).decode()


def opened_salt(keys: InputKeys, stored: str, *, run: str) -> str:
    """The salt of a stored run. Without sensitive values, and in rows of older releases, it is stored as it is."""
    if not stored.startswith(_SALT):
        return stored
    return keys.decrypt(base64.b64decode(stored.removeprefix(_SALT)), run=run, purpose="salt")


def _bound_to(run: str, purpose: str) -> bytes:
    return f"formulary/{purpose}/{run}".encode()


def _key(line: str) -> bytes:
    try:
        key = base64.b64decode(line, validate=True)
    except binascii.Error:
        raise ValueError("a line is not base64") from None
    if len(key) != KEY_BYTES:
        raise ValueError(f"a line holds {len(key)} bytes and not {KEY_BYTES}")
    return key
