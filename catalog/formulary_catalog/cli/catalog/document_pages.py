"""Answers about documents as people read them."""

from formulary_catalog.knowledge.answers import (
    CollectionsAnswer,
    DocumentAnswer,
    DocumentSearchAnswer,
    SimilarDocumentsAnswer,
)
from formulary_catalog.runtime.terminal import Page


def show_documents(answer: DocumentSearchAnswer, *, page: Page) -> None:
    """Each document with the beginning of its text."""
    for hit in answer.results:
        page.line(f"{hit.score:.2f}  {hit.section_title}  ({hit.source_file})", style="bold cyan")
        page.paragraph(hit.text_preview, indent=6)
        page.line(f"      {hit.id}", style="dim")
    if not answer.results:
        page.line(f"Nothing fits among {answer.total_results} documents.")
    for note in answer.notes:
        page.line(f"note: {note}", style="yellow")


def show_similar(answer: SimilarDocumentsAnswer, *, page: Page) -> None:
    """One line a document."""
    if answer.similar_docs:
        rows = [(f"{each.score:.2f}", each.source_file, each.id) for each in answer.similar_docs]
        page.table(("SCORE", "SOURCE", "ID"), rows)
    else:
        page.line("Nothing resembles it.")
    for note in answer.notes:
        page.line(f"note: {note}", style="yellow")


def show_document(answer: DocumentAnswer, *, page: Page) -> None:
    """Where it is from, and its text as it stands."""
    page.line(f"{answer.document.section_title}  ({answer.document.source_file})", style="bold cyan")
    for line in answer.document.text.split("\n"):
        page.line(line)


def show_collections(answer: CollectionsAnswer, *, page: Page) -> None:
    """One line a collection."""
    rows = [(each.name, str(each.documents), str(each.vectors_count)) for each in answer.collections]
    page.table(("COLLECTION", "DOCUMENTS", "WITH VECTOR"), rows)
