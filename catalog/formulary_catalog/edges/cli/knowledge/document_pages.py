"""Answers about documents as people read them."""

from collections.abc import Sequence

from formulary_catalog.edges.cli.wording import notes_as_typed
from formulary_catalog.runtime.terminal import Page, counted
from formulary_catalog.services.knowledge.answers import (
    CollectionsAnswer,
    DocumentAnswer,
    DocumentHit,
    DocumentSearchAnswer,
    SimilarDocumentsAnswer,
)


def show_documents(answer: DocumentSearchAnswer, page: Page) -> None:
    """Each document with the beginning of its text."""
    _show_hits(answer.results, page=page)
    _show_notes(answer.notes, page=page)


def show_similar(answer: SimilarDocumentsAnswer, page: Page) -> None:
    """Each document with the beginning of its text."""
    _show_hits(answer.similar_docs, page=page)
    if not answer.similar_docs:
        page.line("Nothing resembles it.")
    _show_notes(answer.notes, page=page)


def show_document(answer: DocumentAnswer, page: Page) -> None:
    """Where it is from, and its text as it stands."""
    page.line(f"{answer.document.section_title}  ({answer.document.source_file})", style="bold cyan")
    for line in answer.document.text.split("\n"):
        page.line(line)


def show_collections(answer: CollectionsAnswer, page: Page) -> None:
    """One line a collection, and what its numbers mean where they need a word."""
    rows = [(each.name, str(each.documents), str(each.vectors_count)) for each in answer.collections]
    page.table(("COLLECTION", "DOCUMENTS", "COMPARED BY MEANING"), rows)
    if waiting := sum(each.documents - each.vectors_count for each in answer.collections):
        page.line(f"{counted(waiting, 'document')} found by words alone until a running server has embedded them.")


def _show_hits(hits: Sequence[DocumentHit], *, page: Page) -> None:
    for hit in hits:
        page.line(f"{hit.score:.2f}  {hit.section_title}  ({hit.source_file})", style="bold cyan")
        page.paragraph(hit.text_preview, indent=6)
        page.line(f"      {hit.id}", style="dim")


def _show_notes(notes: Sequence[str], *, page: Page) -> None:
    for note in notes_as_typed(notes):
        page.line(f"note: {note}", style="yellow")
