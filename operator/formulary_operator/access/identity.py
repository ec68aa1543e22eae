"""A user as the API server knows it, in the words of `userInfo` and of reviews."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A user with all that its rights may follow from."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, user_info: Mapping[str, Any]) -> "Identity":
        """The user of a `userInfo`; of what is no text or list of texts nothing is taken."""
        extra = user_info.get("extra")
        return cls(
            user=_text(user_info.get("username")),
            uid=_text(user_info.get("uid")),
            groups=_texts(user_info.get("groups")),
            extra=tuple(sorted((str(key), _texts(values)) for key, values in extra.items()))
            if isinstance(extra, Mapping)
            else (),
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list | tuple) else ()
