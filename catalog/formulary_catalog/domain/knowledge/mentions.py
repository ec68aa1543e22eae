"""Which workflows a text mentions: what a model wrote under one incident may name one that another incident excludes.

`incidents` calls it for queries and reasons. Names are looked for in every form that leads to a workflow: with a hyphen
or a dot, with a namespace, with a version, in a URI; and version ids. A plain word such as `restart`, or a title, names
a workflow only where the incident itself was shown it: else it is English.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from formulary_catalog.domain.text import words

_TOKEN = re.compile(r"[a-z0-9](?:[a-z0-9./@-]*[a-z0-9])?")
_VERSION_ID = re.compile(r"wf_ver_[0-9a-f]{20}")
_MARKS = frozenset("-.")


class KnownWorkflow(NamedTuple):
    """A version of a workflow that a text may name."""

    version_id: str
    namespace: str
    name: str
    title: str

    @property
    def qualified(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def possible_names(text: str) -> frozenset[str]:
    """The words of a text that name a workflow if there is one: `drain-node`, `shop/restart`, `wf_ver_…`."""
    folded = text.casefold()
    named = (name for token in _TOKEN.findall(folded) for name in _names(token))
    return frozenset([*_VERSION_ID.findall(folded), *named])


def named_workflows(text: str, *, known: Iterable[KnownWorkflow], shown: Collection[str]) -> frozenset[str]:
    """Those of the known workflows that a text names, as `namespace/name`; as `name` where it says no more.

    `shown` are the ids of the versions whose plain names and titles count as well. The store follows the same rule for
    workflows that come later, by the possible names.
    """
    possible, spoken = possible_names(text), _spoken(text)
    named: set[str] = set()
    for each in known:
        if each.name in possible:
            named.add(each.name)
        if {each.qualified, each.version_id} & possible or (each.version_id in shown and _is_said(each, spoken)):
            named.add(each.qualified)
    return frozenset(named)


def _names(token: str) -> Iterator[str]:
    named, version, _ = token.partition("@")
    parts = [part.strip("-.") for part in named.split("/")]
    for part in parts:
        if version or _MARKS & set(part):
            yield part
        yield from (piece for piece in part.split(".") if "-" in piece)  # a sentence may go on without a space
    yield from ("/".join(pair) for pair in pairwise(parts) if all(pair))


def _is_said(workflow: KnownWorkflow, spoken: str) -> bool:
    phrases = (_spoken(workflow.name), _spoken(workflow.title))
    return any(phrase.strip() and phrase in spoken for phrase in phrases)


def _spoken(text: str) -> str:
    """The text as words between single spaces, so that a phrase of whole words is a plain substring."""
    return f" {' '.join(words(text.casefold()))} "
