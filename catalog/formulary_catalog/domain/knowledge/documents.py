"""A document of a collection: one section of a workflow, of an ended incident or of a runbook.

`domain/entry`, `incidents` and `markdown` make them, the store keeps and finds them, `ranking` orders them. Whatever
its collection, a document is a title, a text, and what it takes to be allowed to read it. Labels of a workflow are no
section of it, custom ones are in no document.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from formulary_catalog.domain.text import WordPlace, with_split_words, words
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.identity import workflow_uri
from formulary_catalog.domain.workflows.manifest import MAX_LEXICAL_TEXT, RemediationWorkflow, Step, title_of
from formulary_catalog.domain.workflows.sections import written_steps

DOCUMENTS_REVISION = 2
"""Stands for how documents are derived from a workflow; a test says when to raise it. Deriving them again at every look
at a workflow would cost more than the look."""
MAX_PART = 3000
"""Bytes of a document's text in JSON, so that it is read with one answer. The model reads about the first 1,000."""
RUNBOOK_ID, INCIDENT_ID = "rb_", "inc_"
"""What ids begin with; those of sections of workflows with the id of the version."""
MAX_ID_LENGTH = 400
"""Characters of an id, or of the URI that stands for one."""
_ID_DIGITS = 20


class Collection(StrEnum):
    """What documents are sections of."""

    WORKFLOWS = "workflows"
    INCIDENTS = "incidents"
    RUNBOOKS = "runbooks"


class Section(NamedTuple):
    """A part of a source: its name in ids, its title, its text."""

    name: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document, ready to be stored.

    `title` is that of its source, headings above it included; it ranks. `workflows` are the workflows that it names,
    `name` or `namespace/name`: who may not see all of those may not see it. `mentions` are words that would name a
    workflow that is stored later; the store then adds it to `workflows`. `free_text`: it holds what somebody wrote
    under an incident, which takes the right to that incident.
    """

    doc_id: str
    collection: Collection
    namespace: str
    source_file: str
    title: str
    section_title: str
    text: str = field(repr=False)
    free_text: bool = False
    workflows: frozenset[str] = frozenset()
    mentions: frozenset[str] = frozenset()

    @property
    def embedding_text(self) -> str:
        """The text whose vector stands for the document."""
        return embedding_text(title=self.title, section_title=self.section_title, text=self.text)

    @property
    def lexical_texts(self) -> dict[WordPlace, str]:
        """What the lexical index holds, by field: bare words, as those of a query. Else a path would be one word."""
        texts = {WordPlace.NAME: f"{self.title} {self.section_title}", WordPlace.WHAT: self.text}
        return {place: " ".join(words(with_split_words(text)))[:MAX_LEXICAL_TEXT] for place, text in texts.items()}

    @property
    def text_hash(self) -> str:
        """Names the embedded text. No text of a whole workflow has the same."""
        return hashlib.sha256(f"document\n{self.embedding_text}".encode()).hexdigest()


def embedding_text(*, title: str, section_title: str, text: str) -> str:
    """The text whose vector stands for a document with these parts."""
    return with_split_words(f"{title}. {section_title}. {text}")


def documents(
    sections: Sequence[Section],
    *,
    source_id: str,
    collection: Collection,
    namespace: str,
    source_file: str,
    title: str,
) -> list[Document]:
    """A document for each section that says something, several for a long one; the texts are `visible`."""
    return [
        Document(
            doc_id=f"{source_id}#{part.name}",
            collection=collection,
            namespace=namespace,
            source_file=source_file,
            title=visible(title),
            section_title=visible(part.title),
            text=part.text,
        )
        for section in sections
        for part in in_parts(section)
    ]


def source_id(prefix: str, *names: str) -> str:
    """The id of a source: the same for the same names, whatever it says."""
    return prefix + hashlib.sha256(json.dumps(names).encode()).hexdigest()[:_ID_DIGITS]


def in_parts(section: Section) -> Iterator[Section]:
    """The section, in parts of at most `MAX_PART` bytes of JSON: `steps`, `steps~2`. None if it says nothing."""
    parts: list[str] = []
    for line in _short_lines(visible(section.text).strip()):
        if parts and _size(f"{parts[-1]}\n{line}") <= MAX_PART:
            parts[-1] += f"\n{line}"
        else:
            parts.append(line)
    for number, text in enumerate((text for part in parts if (text := part.strip("\n"))), start=1):
        if number == 1:
            yield section._replace(text=text)
        else:
            yield Section(f"{section.name}~{number}", f"{section.title} ({number})", text)


def _short_lines(text: str) -> Iterator[str]:
    """The lines, those that are too long cut at a space where there is one."""
    for line in text.split("\n") if text else []:
        while _size(line) > MAX_PART:
            room = _fitting(line)
            at = line.rfind(" ", room // 2, room)
            yield line[: at if at > 0 else room]
            line = line[at + 1 if at > 0 else room :]
        yield line


def _fitting(line: str) -> int:
    """How many characters of the line fit."""
    low, high = 1, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(line[:middle]) <= MAX_PART else (low, middle - 1)
    return low


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


def workflow_documents(workflow: RemediationWorkflow, *, namespace: str, version_id: str) -> list[Document]:
    """The documents of one workflow version, `wf_ver_…#when_to_use`, in the order in which they are read."""
    return documents(
        list(_sections(workflow)),
        source_id=version_id,
        collection=Collection.WORKFLOWS,
        namespace=namespace,
        source_file=workflow_uri(namespace=namespace, name=workflow.metadata.name, version=workflow.spec.version),
        title=title_of(workflow),
    )


def _sections(workflow: RemediationWorkflow) -> Iterator[Section]:
    spec = workflow.spec
    described = spec.description
    yield Section("description", "Description", described.what)
    yield Section("when_to_use", "When to use", described.when_to_use)
    yield Section("when_not_to_use", "When not to use", described.when_not_to_use)
    yield Section("preconditions", "Preconditions", "\n".join([described.preconditions, *_listed(spec.prerequisites)]))
    yield Section("steps", "Steps", _written(spec.steps))
    yield Section("rollback_steps", "Rollback steps", _written(spec.rollback_steps))


def _written(steps: Iterable[Step]) -> str:
    return written_steps(step.model_dump(include={"name", "description", "command"}) for step in steps)


def _listed(items: Iterable[str]) -> list[str]:
    return [f"- {item}" for item in items]
