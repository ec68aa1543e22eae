"""Objects that the operator refused, with the reason and the next step, for every edge.

People browse them where they may list workflows: the page Catalog, REST and the command line call it. Agents never
see them, as there is nothing in them that could be run.
"""

from collections.abc import Sequence

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.browsing import RefusedLine, RefusedList
from formulary_catalog.domain.cursor import Place, cursor, place_of
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.stored import RefusedWorkflow
from formulary_catalog.domain.workflows.labels import UNCONSTRAINED
from formulary_catalog.domain.workflows.requests import ListingRequest
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.workflows.listing import question_of
from formulary_catalog.store.resyncs import FinishedResync, ResyncReader
from formulary_catalog.store.workflows.refusals import INVALID, RefusalReader

_NO_INCIDENT = ContextReference()


class Refused:
    """Lists what is refused; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts) -> None:
        self._reader, self._resyncs = RefusalReader(parts.database), ResyncReader(parts.database)
        self._trail, self._visibility = parts.trail, parts.visibility

    async def page(self, request: ListingRequest, *, caller: Caller) -> RefusedList:
        """A page in name order. Only namespace and words narrow: nothing else is known of what is refused.

        Raises:
            InvalidInput: the cursor is that of another question.
            NotAllowed, Unavailable: as `Visibility.of`.
        """
        question = {**request.question, "status": INVALID}
        arguments = {name: value for name, value in question.items() if value} | {"limit": request.limit}
        async with self._trail.record(
            "read.refused", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            scope = await self._visibility.of(_NO_INCIDENT, caller=caller, record=record, browsing=True)
            found, total = await self._reader.page(
                question_of(request, constraints=UNCONSTRAINED),
                namespaces=scope.namespaces,
                limit=request.limit + 1,
                after=place_of(request.cursor, question=question),
            )
            page = found[: request.limit]
            record.result = {"total": total}
            notes = _notes(await self._resyncs.all())
            more = len(found) > request.limit
            return RefusedList(
                refused=[_line(each) for each in page],
                total=total,
                next_cursor=cursor(Place(page[-1].name, page[-1].namespace, ""), question=question) if more else "",
                notes=notes,
            )


def _notes(resyncs: Sequence[FinishedResync]) -> list[str]:
    """What is noted is what the resyncs of this release found: without a recent one, nothing noted means little."""
    if any(not each.overdue for each in resyncs):
        return []
    if resyncs:
        return ["no recent resync recorded, so objects refused since then may be missing here"]
    return [
        "no resync recorded yet: only objects that an operator refuses are listed, not the files of "
        "`formulary up`, and operators of older releases record none"
    ]


def _line(refused: RefusedWorkflow) -> RefusedLine:
    return RefusedLine(
        namespace=refused.namespace,
        name=refused.name,
        version=refused.version,
        reason=refused.reason,
        message=refused.message,
        since=moment(refused.since),
        next_step=(
            "correct the object and apply it again; its status: kubectl describe remediationworkflow "
            f"{refused.name} --namespace {refused.namespace}"
        ),
    )
