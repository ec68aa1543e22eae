"""The keys of sensitive input, from the file that the settings name or from the data directory of `formulary up`."""

import os
from pathlib import Path
from typing import Protocol

from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.errors import StartupError

_NAME = "input.key"


class KeyFile(Protocol):
    """The setting that names the file: that of the catalog, and that of the operator."""

    @property
    def input_key_file(self) -> Path | None: ...


def input_keys(settings: KeyFile) -> InputKeys:
    """The keys of the file; none if none is named: then runs with sensitive input are refused.

    Raises:
        StartupError: the file cannot be read or holds something else.
    """
    path = settings.input_key_file
    if path is None:
        return InputKeys()
    try:
        return InputKeys.load(path.read_text(encoding="ascii"))
    except OSError as error:
        raise StartupError(
            f"FORMULARY_INPUT_KEY_FILE is {str(path)!r}, which cannot be read: {error.strerror}"
        ) from error
    except ValueError as error:
        # Of the content nothing is repeated: it may be a key.
        why = "it is not ASCII" if isinstance(error, UnicodeDecodeError) else str(error)
        raise StartupError(
            f"FORMULARY_INPUT_KEY_FILE is {str(path)!r}, which does not hold keys: {why}; write one key a line, each "
            "made with `openssl rand -base64 32`"
        ) from None


def local_key_file(data_dir: Path) -> Path:
    """The key file of an embedded database, which only its owner may read. It is made at the first start.

    Raises:
        StartupError: it cannot be written.
    """
    path = data_dir / _NAME
    try:
        # Complete under its name or not there at all: two processes may start at the same time.
        draft = path.with_name(f"{_NAME}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{InputKeys.generate()}\n")
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    except OSError as error:
        raise StartupError(f"the key file {str(path)!r} cannot be written: {error.strerror}") from error
    return path
