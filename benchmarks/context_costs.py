"""What it takes to find the constraints of a search: those of an incident that is stored, or of a target that is kept.

Both demand the same, and searches of both kinds alternate, so that the difference is what finding them costs.
"""

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.domain.targets.reference import parse_target
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.manifest import analysis, text
from support.services import service_on
from support.serving import catalog

_QUERY = "OOMKilled critical"
_CALLER = Caller(name="bench", access=EVERYTHING)
_CUSTOM = {"restarts": ["no"], "team": ["shop"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCosts:
    """Medians in seconds of a search with an incident and of one with a target, and of their difference in a pair."""

    incident: float
    target: float
    more: float

    @property
    def ratio(self) -> float:
        """How often a search with an incident fits into one with a target."""
        return self.target / self.incident


async def measure_contexts(
    workflows: Path, *, postgres: EmbeddedPostgres, embedder: Embedder, rounds: int, warm_up: int
) -> ContextCosts:
    """Measure on a new database with these workflows."""
    references = (ContextReference(remediation_id="rr-bench"), ContextReference(target=parse_target("shop/deploy/web")))
    with tempfile.TemporaryDirectory() as directory:
        _write(Path(directory, "shop.yaml"))
        async with catalog([workflows, Path(directory)], postgres=postgres, embedder=embedder) as parts:
            service = service_on(parts)
            taken: list[list[float]] = []
            for _ in range(rounds + warm_up):
                pair = []
                for reference in references:
                    started = time.perf_counter()
                    await service.search(search_request(query=_QUERY, context=reference), caller=_CALLER)
                    pair.append(time.perf_counter() - started)
                taken.append(pair)
    measured = taken[warm_up:]
    return ContextCosts(
        incident=statistics.median(incident for incident, _ in measured),
        target=statistics.median(target for _, target in measured),
        more=statistics.median(target - incident for incident, target in measured),
    )


def _write(file: Path) -> None:
    """An incident in production, and a namespace whose labels say the same."""
    file.write_text(text(*_documents()), encoding="utf-8")


def _documents() -> list[dict[str, Any]]:
    prefixed = {f"constraint.formulary.dev/{key}": value for key, (value,) in _CUSTOM.items()}
    namespace = {"name": "shop", "labels": {"environment": "production", **prefixed}}
    return [
        analysis("web", remediation_id="rr-bench", labels=_CUSTOM),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": namespace},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}},
    ]
