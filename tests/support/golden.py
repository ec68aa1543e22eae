"""Texts compared whole with a file of the repository; `UPDATE_GOLDEN=1` writes it again: read what changed."""

import os
from pathlib import Path


def assert_golden(text: str, file: Path) -> None:
    """The text is that of the file, byte for byte."""
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"changed on purpose? UPDATE_GOLDEN=1 writes {file.name} again"
