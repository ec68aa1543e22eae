"""What may have been served when: the edits as the writer tells them, and the rules of the domain."""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from soak.catalog import NAMESPACE, state

from formulary_catalog.domain.workflows.labels import Constraints, WorkflowLabels
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow, labels_of
from formulary_catalog.domain.workflows.matching import allowed
from support.filling import entry

_NEVER = float("inf")


@dataclass(slots=True, kw_only=True)
class Edit:
    """One edit: visible from some moment between `begun` and `done`, until the next one is. None: it serves nothing."""

    served: "Served | None"
    begun: float
    done: float = _NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One version as it is served."""

    version_id: str
    labels: WorkflowLabels


@cache
def served(name: str, number: int) -> Served | None:
    """What a workflow serves after so many edits; None where it is suspended then."""
    document = state(name, number)
    if document is None:
        return None
    workflow = RemediationWorkflow.model_validate(document)
    return Served(
        version_id=entry(document, namespace=NAMESPACE).version_id, labels=labels_of(workflow.spec, name=name)
    )


class Oracle:
    """Told every edit; says of any span of time what an answer given in it may hold, and what it must."""

    def __init__(self) -> None:
        self._edits: dict[str, list[Edit]] = defaultdict(list)

    def hear(self, line: str | bytes) -> None:
        """A line of the writer."""
        told = json.loads(line)
        edits = self._edits[told["name"]]
        if told["event"] == "begun":
            edits.append(Edit(served=served(told["name"], told["number"]), begun=told["at"]))
        else:
            edits[-1].done = told["at"]

    @property
    def edits(self) -> int:
        """How many are done."""
        return sum(edit.done < _NEVER for edits in self._edits.values() for edit in edits)

    def problem(
        self,
        versions: Iterable[str],
        *,
        total: int | None,
        demands: Constraints,
        since: float,
        until: float,
        name: str = "",
    ) -> str:
        """What is wrong with an answer that holds these versions; empty if nothing is.

        `total` is how many it says are allowed, which a page always holds here; None for an answer about one workflow,
        whose `name` was asked for.
        """
        held = list(versions)
        may = [self._allowed(each, demands, since=since, until=until) for each in ([name] if name else self._edits)]
        if wrong := [version for version in held if not any(version in of_one for of_one in may)]:
            return f"returned what was not served, not asked for or not allowed: {wrong}"
        if len(set(held)) < len(held):
            return "returned a version twice"
        if any(len(of_one.keys() & set(held)) > 1 for of_one in may):
            return f"returned two versions of a workflow: {held}"
        if total is None:
            return "" if len(held) == 1 else f"is about {len(held)} workflows"
        must = {version for of_one in may for version, certain in of_one.items() if certain}
        if missing := must - set(held):
            return f"left out what is allowed: {sorted(missing)}"
        return "" if len(held) == total else f"counted {total} and returned {len(held)}"

    def must_be_found(self, name: str, *, demands: Constraints, since: float, until: float) -> bool:
        """Whether a workflow was served and allowed all that time."""
        return any(self._allowed(name, demands, since=since, until=until).values())

    def suspended(self, version_id: str, *, since: float, until: float) -> bool | None:
        """Whether the workflow of a version was suspended all that time, so that no version of it is found; None where
        it may have been for a part of it."""
        name = next(
            (
                name
                for name, edits in self._edits.items()
                if any(edit.served is not None and edit.served.version_id == version_id for edit in edits)
            ),
            "",
        )
        states = [certain for version, certain in self._served(name, since=since, until=until) if version is None]
        return any(states) or None if states else False

    def _allowed(self, name: str, demands: Constraints, *, since: float, until: float) -> dict[str, bool]:
        """The versions of a workflow that may have been served and are allowed, and whether that is certain."""
        return {
            version.version_id: certain
            for version, certain in self._served(name, since=since, until=until)
            if version is not None and allowed(version.labels, demands)
        }

    def _served(self, name: str, *, since: float, until: float) -> Iterator[tuple[Served | None, bool]]:
        """What may have been served of a workflow in that time, and whether it certainly was all the time."""
        edits = self._edits.get(name, [])
        for number in reversed(range(bisect_right(edits, until, key=attrgetter("begun")))):
            following = edits[number + 1] if number + 1 < len(edits) else None
            if following is not None and following.done < since:
                return
            yield edits[number].served, edits[number].done <= since and (following is None or following.begun >= until)
