"""Which incident a call says it belongs to (DESIGN section 6).

`audited_call` reads it for tools, REST and the console. Only calls read this, never a listing or a handshake: clients
send the same headers with both. Whether the caller may use the incident is decided in `kernel.incidents`.
"""

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers

from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import ContextError
from formulary_catalog.operations.json_text import META_KEY

REMEDIATION_HEADER = "X-Remediation-Id"
ANALYSIS_HEADER = "X-AIAnalysis"
ADDRESS_PARAMETER = "incident"
"""People's clients lose headers, and keep the address of a server."""
MAX_LENGTH = 253


def context_reference(
    *, headers: Headers | None, meta: Mapping[str, Any] | None = None, address: str | None = None
) -> ContextReference:
    """The references of one call; blank headers count as absent, since clients send them empty at start-up.

    `address` is the incident that the address of the server names; None where it names none.

    Raises:
        ContextError: a reference is too long, holds odd characters, a header is repeated with other values, or the
            address names an incident without saying which: who wrote it meant to be constrained.
    """
    if address is not None and not address.strip():
        raise ContextError(f"{ADDRESS_PARAMETER} of the address is empty; name the incident, or leave it out")
    return ContextReference(
        remediation_id=_header(headers, name=REMEDIATION_HEADER),
        analysis=_header(headers, name=ANALYSIS_HEADER),
        meta_remediation_id=reference_text((meta or {}).get(META_KEY), source=f"_meta {META_KEY}"),
        address_remediation_id=reference_text(address, source=f"{ADDRESS_PARAMETER} of the address"),
    )


def reference_text(value: object, *, source: str) -> str:
    """A reference as given by `source`, without the blanks around it; empty if there is none.

    Raises:
        ContextError: it is no text, too long, or holds characters that no identifier has.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ContextError(f"{source} is not text; send the remediation id as a string")
    text = value.strip()
    if len(text) > MAX_LENGTH:
        raise ContextError(f"{source} has {len(text)} characters; an identifier has at most {MAX_LENGTH}")
    if not (text.isascii() and text.isprintable()):
        raise ContextError(f"{source} holds characters other than printable ASCII; send the identifier alone")
    return text


def _header(headers: Headers | None, *, name: str) -> str:
    if headers is None:
        return ""
    given = {text for value in headers.getlist(name) if (text := reference_text(value, source=name))}
    if len(given) > 1:
        raise ContextError(f"{name} is sent {len(given)} times with different values; send it once")
    return given.pop() if given else ""
