"""Which environments are harmless: those of a list. Everything else counts as production."""

import unicodedata
from collections.abc import Iterable

from formulary_catalog.settings import HARMLESS_ENVIRONMENTS


def is_harmless(environment: str, *, harmless: Iterable[str] = HARMLESS_ENVIRONMENTS) -> bool:
    """Whether an environment is one of the list, in any case.

    A text that merely looks like a name of the list is not on it: neither one of full-width or otherwise compatible
    letters, nor one that only folding would make equal, such as a long s (U+017F).
    """
    name = _normal(environment)
    if name != unicodedata.normalize("NFKC", name):
        return False
    return name in {_normal(each) for each in harmless}


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip()).lower()
