"""Two versions of a workflow side by side, for people who look at what a change does.

The console, REST and the command line call it. Both are versions that the caller may see, of a workflow that is not
suspended.
"""

import asyncio
from collections.abc import Sequence

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.browsing import DifferenceRow, VersionDifference
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.stored import StoredManifest
from formulary_catalog.domain.workflows.difference import MAX_LINES, Row, manifest_lines, side_by_side
from formulary_catalog.domain.workflows.identity import parse_reference, precedence
from formulary_catalog.errors import NotFound
from formulary_catalog.kernel.lookup import FoundWorkflow
from formulary_catalog.kernel.manifests import ParsedWorkflow
from formulary_catalog.kernel.parts import CatalogParts

_NO_INCIDENT = ContextReference()
_SHOWN = 60


class Versions:
    """Answers callers; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts) -> None:
        self._trail, self._visibility, self._finder = parts.trail, parts.visibility, parts.finder
        self._parsed = parts.parsed

    async def difference(self, workflow_id: str, version: str, *, caller: Caller) -> VersionDifference:
        """What differs between the version that `workflow_id` names and another one, the lower version first.

        Raises:
            NotFound: no visible workflow has that name, or it has no such version.
            InvalidInput: the name is malformed, or needs a namespace.
            NotAllowed, Unavailable: as `Visibility.of`.
        """
        arguments = {"workflow_id": workflow_id, "version": version}
        async with self._trail.record(
            "read.versions", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            scope = await self._visibility.of(_NO_INCIDENT, caller=caller, record=record, browsing=True)
            found = await self._finder.find_within(parse_reference(workflow_id), scope=scope)
            other = self._version(found, version)
            (old, older), (new, newer) = sorted(
                [(found.stored.version, found.parsed), other], key=lambda each: precedence(each[0])
            )
            record.result = {"version_id": found.stored.version_id}
            lines, compared = await asyncio.to_thread(_compared, older, newer)
            return VersionDifference(
                workflow_id=found.stored.workflow_id,
                older=old,
                newer=new,
                rows=[DifferenceRow(kind=row.side, older=row.older, newer=row.newer) for row in compared],
                notes=_notes(older, newer, longest=lines),
            )

    def _version(self, found: FoundWorkflow, version: str) -> tuple[str, ParsedWorkflow]:
        wanted = version.removeprefix("v")
        line: StoredManifest | None = next((each for each in found.history if each.version == wanted), None)
        parsed = self._parsed.get(line.version_id, line.document) if line is not None else None
        if line is None or parsed is None:
            known = ", ".join(each.version for each in found.history)
            raise NotFound(
                f"{found.stored.workflow_id} has no version {version[:_SHOWN]!r}; there are {known}",
                reference=version,
            )
        return line.version, parsed


def _compared(older: ParsedWorkflow, newer: ParsedWorkflow) -> tuple[int, Sequence[Row]]:
    """The lines of the longer manifest, and both side by side; half a second for the worst ones."""
    lines = manifest_lines(older.workflow), manifest_lines(newer.workflow)
    return max(map(len, lines)), side_by_side(*lines)


def _notes(older: ParsedWorkflow, newer: ParsedWorkflow, *, longest: int) -> list[str]:
    notes = []
    if older.labels.custom != newer.labels.custom:
        notes.append("their custom labels differ as well; they are not shown")
    if longest > MAX_LINES:
        notes.append(f"only the first {MAX_LINES} lines of each are compared")
    return notes
