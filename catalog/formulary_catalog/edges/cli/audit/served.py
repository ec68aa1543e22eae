"""The audit trail behind a running server, as far as the owner of FORMULARY_TOKEN may read it; without a database."""

from collections.abc import Sequence

from formulary_catalog.domain.reading import TraceAnswer, TraceFiles, TracePage, TraceVerification
from formulary_catalog.edges.cli.http_client import Remote, ask_server
from formulary_catalog.operations.arguments.reading import TracesArguments
from formulary_catalog.operations.audit import TRACE, TRACE_FILES, TRACES

_SECONDS = 20.0  # longer than the server's own deadline


def served_traces(url: str, asked: TracesArguments, *, limit: int) -> TracePage:
    """The traces that changed last, of those that are asked for.

    Raises:
        FormularyError: the server's own, or Unavailable if it cannot be reached.
    """
    filters = asked.model_dump(exclude_defaults=True)
    return ask_server(
        url, lambda server: server.whole_list(TRACES, filters, entries="traces", limit=limit), seconds=_SECONDS
    )


def served_trace(url: str, trace_id: str) -> TraceAnswer:
    """One trace, all its pages as one.

    Raises:
        FormularyError: the server's own, or Unavailable if it cannot be reached.
    """

    async def read(server: Remote) -> TraceAnswer:
        pages = [await server.ask(TRACE, {"trace_id": trace_id})]
        while cursor := pages[-1].next_cursor:
            pages.append(await server.ask(TRACE, {"trace_id": trace_id, "cursor": cursor}))
        return _joined(pages)

    return ask_server(url, read, seconds=_SECONDS)


def served_files(url: str, trace_id: str) -> TraceFiles:
    """One trace as files.

    Raises:
        FormularyError: the server's own, or Unavailable if it cannot be reached.
    """
    return ask_server(url, lambda server: server.ask(TRACE_FILES, {"trace_id": trace_id}), seconds=_SECONDS)


def _joined(pages: Sequence[TraceAnswer]) -> TraceAnswer:
    """The pages of one trace as one. The last one knows how it ended."""
    last = pages[-1]
    passages = [passage for page in pages for passage in page.story.passages]
    return last.model_copy(
        update={
            "story": last.story.model_copy(update={"analysis": pages[0].story.analysis, "passages": passages}),
            "verification": _all_verified([page.verification for page in pages]),
            "events": [event for page in pages for event in page.events],
        }
    )


def _all_verified(pages: Sequence[TraceVerification]) -> TraceVerification:
    """What was found in any of the parts. They reach from the first event to the last, and overlap by one."""
    parts = list({page.first: page for page in pages}.values())
    findings = {finding.model_dump_json(): finding for part in parts for finding in part.findings}
    worst = next((part for part in parts if not part.passed), parts[-1])
    return TraceVerification(
        status=worst.status,
        passed=worst.passed,
        event_count=sum(part.event_count for part in parts) - (len(parts) - 1),
        first=parts[0].first,
        last=parts[-1].last,
        findings=list(findings.values()),
    )
