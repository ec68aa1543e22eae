"""Which documents somebody may have meant by an id or an address that none has; `services/knowledge/service` asks.

An address is the source of a document with its section, `workflow://formulary/drain-node@1.0.0#steps`. What tells
sources apart is the name at their end, `drain-node`.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from formulary_catalog.domain.knowledge.documents import INCIDENT_ID, RUNBOOK_ID
from formulary_catalog.domain.workflows.identity import VERSION_ID_PREFIX
from formulary_catalog.kernel.names import nearest_names

_MOST = 5
_ALIKE = 0.4
"""The share of letters that two ids have in common from which one may be meant by the other."""
_NAME = re.compile(r"([^/@#]*)(?:@[^/#]*)?(?:#.*)?$", re.DOTALL)
"""Before version and section."""


def is_id(reference: str) -> bool:
    """Whether a reference is meant for an id; else for an address, or a part of one."""
    return reference.startswith((VERSION_ID_PREFIX, RUNBOOK_ID, INCIDENT_ID))


def nearest_ids(wanted: str, ids: Sequence[str]) -> list[str]:
    """The nearest of these ids, in their order."""
    return difflib.get_close_matches(wanted, ids, n=_MOST, cutoff=_ALIKE)


def nearest_addresses(wanted: str, addresses: Iterable[str]) -> list[str]:
    """The sections of the source that is named; if there is none, a section of each source of a like name."""
    sources: dict[str, list[str]] = defaultdict(list)
    for address in addresses:
        sources[source_name(address)].append(address)
    name = source_name(wanted)
    if name in sources:
        return _by_likeness(wanted, sources[name])[:_MOST]
    return [_by_likeness(wanted, sources[near])[0] for near in nearest_names(name, list(sources))]


def source_name(address: str) -> str:
    """The name at the end of a source: `drain-node` of `workflow://formulary/drain-node@1.0.0#steps`."""
    found = _NAME.search(address)
    return found.group(1).lower() if found else ""


def _by_likeness(wanted: str, addresses: Iterable[str]) -> list[str]:
    matcher = difflib.SequenceMatcher(b=wanted)

    def unlike(address: str) -> float:
        matcher.set_seq1(address)
        return -matcher.ratio()

    return sorted(dict.fromkeys(addresses), key=unlike)
