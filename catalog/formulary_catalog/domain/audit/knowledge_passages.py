"""Recorded events in words for people: what was asked of documents."""

from collections.abc import Callable, Mapping

from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.wording import Description, Known, Line, Tone, lines

_SHOWN = 5


def _searching(payload: Recorded, known: Known) -> str:
    arguments = payload.inner("arguments")
    where = arguments.text("collection") or "all collections"
    return f"searched documents for “{arguments.text('query')}” in {where}"


def _comparing(payload: Recorded, known: Known) -> str:
    return f"looked for documents like {payload.inner('arguments').text('doc_id') or 'a draft'}"


def _reading(payload: Recorded, known: Known) -> str:
    return f"read document {payload.inner('arguments').text('doc_id')}"


def _counting(payload: Recorded, known: Known) -> str:
    return "listed the collections of documents"


def _found(attempt: Callable[[Recorded, Known], str]) -> Callable[[Recorded, Known], Description]:
    def describe(payload: Recorded, known: Known) -> Description:
        result = payload.inner("result")
        documents = result.each("documents")
        return Description(
            title=f"{attempt(payload, known)}: {len(documents)} of {result.text('total') or 'an unknown number'}",
            tone=Tone.PLAIN if documents else Tone.WAITING,
            lines=lines(
                Line(label="ranked", text=payload.text("mode")),
                (
                    Line(label=f"{place}.", text=f"{each.text('doc_id')} ({each.text('score')})")
                    for place, each in enumerate(documents[:_SHOWN], start=1)
                ),
            ),
        )

    return describe


KNOWLEDGE_ATTEMPTS: Mapping[str, Callable[[Recorded, Known], str]] = {
    "read.documents": _searching,
    "read.similar": _comparing,
    "read.document": _reading,
    "read.collections": _counting,
}
KNOWLEDGE_DESCRIPTIONS: Mapping[str, Callable[[Recorded, Known], Description]] = {
    "read.documents": _found(_searching),
    "read.similar": _found(_comparing),
    "read.document": lambda payload, known: Description(title=_reading(payload, known)),
    "read.collections": lambda payload, known: Description(title=_counting(payload, known)),
}
