"""Who receives notifications: the list of `FORMULARY_NOTIFICATIONS`, and how what is sent to them is signed.

Receivers come from the settings alone. Nothing that a tenant writes can name one.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from formulary_catalog.domain.notifications.notices import Event

URL_FILE, KEY_FILE = "url", "signing-key"
"""Files of a receiver's directory, as keys of its Secret."""
_MOST = 50
_BASE64_KEY = "whsec_"
_NAME = r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$"


def http_address(url: str) -> str:
    """The address; raises ValueError for what is none that can be posted to."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.fragment
    except ValueError:  # its message quotes the address
        is_address = False
    if not is_address:
        raise PydanticCustomError("address", "Is no address of HTTP or HTTPS")
    return url


class Format(StrEnum):
    """What a receiver understands."""

    CLOUDEVENTS = "cloudevents"
    SLACK = "slack"
    TEAMS = "teams"
    MATTERMOST = "mattermost"


class Receiver(BaseModel):
    """One receiver. `events` and `namespaces` are those that it wants; empty for all.

    Its address is `url`, or the file `url` in `secret_dir`; the file `signing-key` there holds the key that signs.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    name: str = Field(pattern=_NAME)
    format: Format = Format.CLOUDEVENTS
    url: Annotated[str, AfterValidator(http_address)] | None = Field(default=None, repr=False)
    secret_dir: Path | None = None
    events: tuple[Event, ...] = ()
    namespaces: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_somewhere(self) -> "Receiver":
        if self.url is None and self.secret_dir is None:
            raise PydanticCustomError("no_address", "Has neither url nor secretDir; give one")
        return self


_RECEIVERS = TypeAdapter(Annotated[tuple[Receiver, ...], Field(max_length=_MOST)])


def receivers_of(setting: Any) -> tuple[Receiver, ...]:
    """The receivers that the setting names, as JSON.

    Raises:
        PydanticCustomError: it is no such list; the message holds no value of it, which may be secret.
    """
    validate = _RECEIVERS.validate_json if isinstance(setting, str) else _RECEIVERS.validate_python
    try:
        receivers = validate(setting)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f"{part}: " for part in first["loc"])
        raise PydanticCustomError("receivers", "{problem}", {"problem": where + first["msg"]}) from None
    if len({receiver.name for receiver in receivers}) < len(receivers):
        raise PydanticCustomError("receivers", "Names a receiver twice; each name is that of one")
    return receivers


def signature_headers(key: str, *, id: str, timestamp: int, body: bytes) -> Mapping[str, str]:
    """The headers of Standard Webhooks: HMAC-SHA256 over id, time and body, so that nothing can be sent again later.

    A key that begins with `whsec_` is in base64, any other counts as it is.
    """
    signed = b".".join([id.encode(), str(timestamp).encode(), body])
    digest = hmac.new(_key_bytes(key), signed, hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _key_bytes(key: str) -> bytes:
    if not key.startswith(_BASE64_KEY):
        return key.encode()
    try:
        return base64.b64decode(key.removeprefix(_BASE64_KEY), validate=True)
    except binascii.Error:
        raise ValueError(f"the signing key begins with {_BASE64_KEY} and is not base64 behind that") from None
