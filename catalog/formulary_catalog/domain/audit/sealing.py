"""The constraints of an incident as a trace keeps them: a sealed copy for few readers, keyed digests for all others."""

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.incidents import RequestContext

_NOTHING: Mapping[str, tuple[str, ...]] = {}
_METHOD = "hmac-sha256"
_FIELDS = tuple(each.name for each in fields(RequestContext) if each.name not in ("note", "target_selector"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """Constraints as they are stored apart from a trace, never in its events.

    `content`, canonical JSON, is read for callers who may use the incidents of `namespace`. Its custom labels are shown
    to those who may read constraints there. An empty namespace means all: a call without an incident gave the labels.
    """

    namespace: str
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyedDigest:
    """Digests that are equal for equal values. Without the key, they do not reveal the values."""

    key: bytes = field(repr=False)

    def of(self, text: str) -> str:
        """`hmac-sha256:` and 64 hexadecimal digits."""
        return f"{_METHOD}:{hmac.digest(self.key, text.encode('utf-8', 'surrogatepass'), 'sha256').hex()}"

    def of_labels(self, labels: Mapping[str, frozenset[str]]) -> str:
        """The digest of custom labels, in whatever order they come."""
        return self.of(canonical_json({key: sorted(values) for key, values in labels.items()}, ascii_only=True))


def seal(
    context: RequestContext | None,
    *,
    strict_keys: frozenset[str],
    custom_labels: Mapping[str, tuple[str, ...]] = _NOTHING,
) -> Sealed | None:
    """What the incident of a call demands, to be sealed; None where there is nothing of the kind.

    `strict_keys` are those of the settings, `custom_labels` those that the caller was allowed to give itself.
    """
    if context is None and not custom_labels:
        return None
    incident = context or RequestContext(namespace="", name="", remediation_id="")
    stored = {
        **{name: getattr(incident, name) for name in _FIELDS},
        "custom_labels": {key: sorted(values) for key, values in {**custom_labels, **incident.custom_labels}.items()},
        "strict_keys": sorted(incident.strict_keys | strict_keys),
        "detected_labels": dict(incident.detected_labels),
    }
    return Sealed(namespace=incident.namespace, content=canonical_json(stored, ascii_only=True))


def unseal(content: str) -> RequestContext:
    """The incident as it was when the content was sealed, with everything that was demanded on top of it."""
    stored = json.loads(content)
    incident = RequestContext(**{name: stored[name] for name in _FIELDS if name in stored})
    return replace(
        incident,
        custom_labels={key: tuple(values) for key, values in incident.custom_labels.items()},
        strict_keys=frozenset(incident.strict_keys),
        target_owners=tuple(incident.target_owners),
    )
