"""The keys of the audit trail, from the files that the settings name."""

from pathlib import Path
from typing import Protocol

from formulary_catalog.domain.audit.checkpoint import PublicKey, SigningKey
from formulary_catalog.errors import StartupError


class KeyFiles(Protocol):
    """The settings that name the files: those of the catalog, and those of the operator."""

    @property
    def audit_key_file(self) -> Path | None: ...

    @property
    def audit_public_key_file(self) -> Path | None: ...


def signing_key(settings: KeyFiles) -> SigningKey | None:
    """The key that signs checkpoints; None if none is named.

    Raises:
        StartupError: the file cannot be read or holds no such key.
    """
    path = settings.audit_key_file
    if path is None:
        return None
    try:
        return SigningKey.load(_content(path, named_by="FORMULARY_AUDIT_KEY_FILE"))
    except ValueError:
        raise StartupError(
            f"FORMULARY_AUDIT_KEY_FILE is {str(path)!r}, which holds no unencrypted Ed25519 private key in PEM form; "
            "make one with `formulary trace keygen`"
        ) from None


def public_keys(settings: KeyFiles) -> list[PublicKey]:
    """The keys that checkpoints may be signed with: those of the public file, else that of the private one, else none.

    Raises:
        StartupError: the file cannot be read or holds no such key.
    """
    path = settings.audit_public_key_file
    if path is None:
        key = signing_key(settings)
        return [key.public] if key is not None else []
    try:
        return PublicKey.load(_content(path, named_by="FORMULARY_AUDIT_PUBLIC_KEY_FILE"))
    except ValueError:
        raise StartupError(
            f"FORMULARY_AUDIT_PUBLIC_KEY_FILE is {str(path)!r}, which holds something else than Ed25519 public keys in "
            "PEM form; name the .pub file that `formulary trace keygen` wrote"
        ) from None


def _content(path: Path, *, named_by: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StartupError(f"{named_by} is {str(path)!r}, which cannot be read: {error.strerror}") from error
