"""One recorded event in words for people: the calls that read and choose.

What governance says and how a run goes is described by `run_passages`.
"""

from collections.abc import Callable, Iterator

from formulary_catalog.domain.audit.chain import HOLD_PLACED, HOLD_RELEASED, TRIAL
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.run_passages import GOVERNANCE_DESCRIPTIONS, RUN_DESCRIPTIONS
from formulary_catalog.domain.audit.wording import Description, Known, Line, Tone, lines

_SHOWN_CANDIDATES = 5
_OK = ("", "ok")
_UNSUPPORTED = {
    True: ("which its search did not return", "none: the search that it names did not return this version"),
    False: ("which no search before it returned", "none: no search of the caller before it returned this version"),
}
"""What is said of a selection that is no evidence, by whether it names a search."""
_SHOWN_DOCUMENTS = 5


def describe(kind: str, payload: Recorded, *, known: Known) -> Description:
    """An event in words; one of a kind that is not known is described by its fields."""
    attempt = _ATTEMPTS.get(kind)
    if attempt is not None and not is_ok(payload):
        why = payload.inner("result").text("error") or payload.text("outcome")
        return Description(
            title=f"{attempt(payload, known)}: failed",
            tone=Tone.BAD,
            lines=lines(Line(label="error", text=why, tone=Tone.BAD)),
        )
    known_kind = _DESCRIPTIONS.get(kind)
    return known_kind(payload, known) if known_kind is not None else _unknown(kind, payload)


def is_ok(payload: Recorded) -> bool:
    """Whether the call was answered."""
    return payload.text("outcome") in _OK


def is_supported(payload: Recorded) -> bool:
    """Whether a selection counts: not where its search did not return the version. Older releases did not look."""
    return payload.inner("result").as_dict().get("supported") is not False


def _searching(payload: Recorded, known: Known) -> str:
    return f"searched for “{payload.inner('arguments').text('query')}”"


def _trying(payload: Recorded, known: Known) -> str:
    return f"tried a search for “{payload.inner('arguments').text('query')}”"


def _search(payload: Recorded, known: Known) -> Description:
    return _found(payload, known, title=_searching(payload, known))


def _trial(payload: Recorded, known: Known) -> Description:
    return _found(payload, known, title=_trying(payload, known))


def _found(payload: Recorded, known: Known, *, title: str) -> Description:
    arguments, result = payload.inner("arguments"), payload.inner("result")
    candidates = result.each("candidates")
    left = len(candidates) - _SHOWN_CANDIDATES
    return Description(
        title=f"{title}: {result.text('total') or len(candidates)} allowed",
        tone=Tone.PLAIN if candidates else Tone.WAITING,
        lines=lines(
            Line(label="labels", text=_labels(arguments.inner("labels"))),
            Line(label="without", text=", ".join(arguments.texts("exclude_keywords"))),
            _constraints(payload.inner("constraints")),
            Line(label="ranked", text=payload.text("mode")),
            *(
                _candidate(candidate, rank=rank, known=known)
                for rank, candidate in enumerate(candidates[:_SHOWN_CANDIDATES], start=1)
            ),
            Line(label="", text=f"and {left} more" if left > 0 else ""),
        ),
    )


def _constraints(applied: Recorded) -> Iterator[Line]:
    """What was demanded in addition to the labels of the call; of custom labels that there were some."""
    for name in ("incident", "detected", "inferred"):
        yield Line(label=name, text="; ".join(f"{key} {value}" for key, value in applied.inner(name).pairs()))
    yield Line(label="custom labels", text="sealed" if applied.text("custom_labels") else "")
    yield from (Line(label="note", text=note) for note in applied.texts("notes"))


def _labels(asked: Recorded) -> str:
    """`severity critical; priority P0 or P1`."""
    return "; ".join(f"{name} {' or '.join(asked.texts(name)) or value}" for name, value in asked.pairs())


def _candidate(candidate: Recorded, *, rank: int, known: Known) -> Iterator[Line]:
    version_id = candidate.text("version_id")
    chosen = version_id in known.chosen
    parts = ["chosen"] if chosen else []
    parts += [
        f"{name} {value:.2f}" for name in ("confidence", "cosine") if (value := candidate.number(name)) is not None
    ]
    if not candidate.flag("returned"):
        parts.append("not returned")
    name = candidate.text("workflow") or version_id or "a workflow"
    yield Line(label=f"{rank}.", text=f"{name} ({', '.join(parts)})", tone=Tone.GOOD if chosen else Tone.PLAIN)
    yield Line(label="", text="; ".join(candidate.texts("match_reasons")))


def _reading(payload: Recorded, known: Known) -> str:
    return f"read {known.workflow(payload)}"


def _listing(payload: Recorded, known: Known) -> str:
    return "listed the catalog"


def _list(payload: Recorded, known: Known) -> Description:
    total = payload.inner("result").text("total") or "an unknown number of"
    return Description(title=f"{_listing(payload, known)}: {total} workflows")


def _looking_around(payload: Recorded, known: Known) -> str:
    return f"looked at what is connected with {payload.inner('arguments').text('entity') or 'a workflow'}"


def _looking_up(payload: Recorded, known: Known) -> str:
    return f"looked up the name “{payload.inner('arguments').text('name')}”"


def _weighing(payload: Recorded, known: Known) -> str:
    return f"looked at what depends on {known.workflow(payload)}"


def _reading_a_section(payload: Recorded, known: Known) -> str:
    section = payload.inner("arguments").text("section").replace("_", " ")
    return f"read the section “{section}” of {known.workflow(payload)}"


def _comparing(payload: Recorded, known: Known) -> str:
    return f"compared two versions of {known.workflow(payload)}"


def _counting(payload: Recorded, known: Known) -> str:
    return "read the catalog in numbers"


def _looking_for_approvals(payload: Recorded, known: Known) -> str:
    return "listed the runs that wait for a person"


def _explaining(payload: Recorded, known: Known) -> str:
    arguments = payload.inner("arguments")
    of = arguments.text("query")
    search = f"“{of}”" if of else "a recorded search"
    if not arguments.text("workflow_id"):
        return f"looked into the answer to {search}"
    return f"asked why {known.workflow(payload)} is in the answer to {search}, or why not"


def _looking_into(what: str) -> Callable[[Recorded, Known], str]:
    return lambda payload, known: f"looked into {what}"


def _choosing(payload: Recorded, known: Known) -> str:
    return f"tried to choose {known.workflow(payload)}"


def _selection(payload: Recorded, known: Known) -> Description:
    arguments, version_id = payload.inner("arguments"), payload.inner("result").text("version_id")
    supported, name = is_supported(payload), known.workflow(payload)
    names_search = bool(payload.text("search_id"))
    search = "the search that it names" if names_search else "the search before"
    unsupported, no_evidence = _UNSUPPORTED[names_search]
    if not supported:
        rank = ""
    elif version_id in known.found:
        rank = f"{known.found.index(version_id) + 1} of {len(known.found)} in {search}"
    else:
        rank = f"{search} did not find it" if known.found else ""
    return Description(
        title=f"chose {name}" if supported else f"named {name}, {unsupported}",
        tone=Tone.GOOD if supported else Tone.WAITING,
        lines=lines(
            Line(label="because", text=arguments.text("reasoning")),
            Line(label="confidence", text=arguments.text("confidence")),
            Line(label="rank", text=rank, tone=Tone.PLAIN if version_id in known.found else Tone.WAITING),
            Line(label="evidence", text="" if supported else no_evidence, tone=Tone.WAITING),
        ),
    )


def _status(payload: Recorded, known: Known) -> Description:
    return Description(title=f"asked for the state of the run of {known.workflow(payload)}")


def _unknown(kind: str, payload: Recorded) -> Description:
    return Description(title=kind, lines=lines(Line(label=name, text=value) for name, value in payload.pairs()))


def _searching_documents(payload: Recorded, known: Known) -> str:
    arguments = payload.inner("arguments")
    where = arguments.text("collection") or "all collections"
    return f"searched documents for “{arguments.text('query')}” in {where}"


def _comparing_documents(payload: Recorded, known: Known) -> str:
    return f"looked for documents like {payload.inner('arguments').text('doc_id') or 'a draft'}"


def _reading_document(payload: Recorded, known: Known) -> str:
    return f"read document {payload.inner('arguments').text('doc_id')}"


def _counting_documents(payload: Recorded, known: Known) -> str:
    return "listed the collections of documents"


def _found_documents(attempt: Callable[[Recorded, Known], str]) -> Callable[[Recorded, Known], Description]:
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
                    for place, each in enumerate(documents[:_SHOWN_DOCUMENTS], start=1)
                ),
            ),
        )

    return describe


_READING: dict[str, Callable[[Recorded, Known], str]] = {
    "details": _reading,
    "read.related": _looking_around,
    "read.facets": _looking_into("what narrows the list of workflows"),
    "read.refused": _looking_into("the objects that are refused"),
    "read.names": _looking_up,
    "read.impact": _weighing,
    "read.section": _reading_a_section,
    "read.versions": _comparing,
    "read.statistics": _counting,
    "read.approvals": _looking_for_approvals,
    "read.explain": _explaining,
    "read.skills": _looking_into("the skills for the incident"),
    "read.traces": _looking_into("the list of traces"),
    "read.trace": _looking_into("a trace"),
    "read.incidents": _looking_into("the list of incidents"),
    "read.incident": _looking_into("an incident"),
    "read.target": _looking_into("what the owners of a target demand"),
    "read.invocations": _looking_into("the list of runs"),
    "read.outcomes": _looking_into("how runs ended"),
    "read.contracts": _looking_into("the contracts in force"),
    "read.halts": _looking_into("the halts in force"),
    "read.coverage": _looking_into("the alerts and what answers them"),
    "read.stale": _looking_into("the workflows that have not been used or changed for long"),
    "read.duplicates": _looking_into("the workflows with nearly the same text"),
    "read.tables": _looking_into("the tables of the catalog"),
    "read.columns": _looking_into("the columns of a table"),
    "read.sample": _looking_into("some rows of a table"),
    "read.column_statistics": _looking_into("the statistics of a column"),
    "read.document": _reading_document,
    "read.collections": _counting_documents,
}
"""Calls of which there is nothing to tell but that they were made."""


def _read(doing: Callable[[Recorded, Known], str]) -> Callable[[Recorded, Known], Description]:
    return lambda payload, known: Description(title=doing(payload, known))


_ATTEMPTS: dict[str, Callable[[Recorded, Known], str]] = {
    "search": _searching,
    **_READING,
    TRIAL: _trying,
    "read.query": lambda payload, known: "asked the catalog in SQL",
    "halt.refused": lambda payload, known: "tried to begin or lift a halt",
    "list": _listing,
    "selection": _choosing,
    "governance.gate": lambda payload, known: "gate",
    "governance.enforce": lambda payload, known: "contract",
    "governance.verdict": lambda payload, known: "verdict",
    "governance.replay": lambda payload, known: "verified the trace so far",
    "read.documents": _searching_documents,
    "read.similar": _comparing_documents,
}
_DESCRIPTIONS: dict[str, Callable[[Recorded, Known], Description]] = {
    "search": _search,
    **{kind: _read(doing) for kind, doing in _READING.items()},
    TRIAL: _trial,
    "read.query": lambda payload, known: Description(
        title="asked the catalog in SQL",
        lines=lines(Line(label="SQL", text=payload.inner("arguments").text("sql"))),
    ),
    "list": _list,
    "selection": _selection,
    "status": _status,
    HOLD_PLACED: lambda payload, known: Description(
        title="held: it is kept until it is released",
        tone=Tone.WAITING,
        lines=lines(Line(label="because", text=payload.text("reason"))),
    ),
    HOLD_RELEASED: lambda payload, known: Description(title="released from its hold"),
    **GOVERNANCE_DESCRIPTIONS,
    "read.documents": _found_documents(_searching_documents),
    "read.similar": _found_documents(_comparing_documents),
    **RUN_DESCRIPTIONS,
}
KINDS = _DESCRIPTIONS.keys()
"""The kinds of events that have words of their own."""
