"""One search on its way: what is planned, what was found, in which order, and what is known of the page."""

from collections.abc import Callable, Sequence
from functools import cache

import structlog

from formulary_catalog.domain.fitting import term_weights
from formulary_catalog.domain.scoring import Scored, SearchMode, rank
from formulary_catalog.search.parsed import ParsedWorkflow, ParsedWorkflows
from formulary_catalog.search.planning import SearchPlan
from formulary_catalog.search.vectors import VectorsByModel
from formulary_catalog.store.pool import Plan, Pool
from formulary_catalog.store.search import Found

_log = structlog.get_logger(__name__)


class NotEmbedded(Exception):
    """The catalog takes the first word for what was not expected, and the text to rank by then has no vector yet."""


class Ranking:
    """Ranks the pool of one search. The store calls its methods in the middle of a read, perhaps more than once."""

    def __init__(
        self, *, plan: Callable[[bool], SearchPlan], expected: bool, parsed: ParsedWorkflows, top_k: int
    ) -> None:
        """`plan` makes the plan for a first word that is a signal type or is none, `expected` is what it will be."""
        self._plan = cache(plan)
        self._parsed = parsed
        self._top_k = top_k
        self.vectors: dict[str, VectorsByModel] = {}
        """Of the texts of the plans, those that were embedded."""
        self.chosen = self._plan(expected)
        self.mode = SearchMode.LEXICAL
        self.scored: Sequence[Scored] = ()
        self.weights: list[float] = []
        """How telling each term of the query is among the candidates."""
        self.known: dict[str, ParsedWorkflow] = {}
        """Workflows of the page that are parsed already; kept here, so that the cache may forget them meanwhile."""

    @property
    def models(self) -> list[str]:
        """The models that the query was embedded by."""
        return sorted(self.vectors[self.chosen.parsed.text])

    def text(self, first_word_is_signal: bool) -> str:
        """What to embed if the first word is one, or is none."""
        return self._plan(first_word_is_signal).parsed.text

    def plan(self, first_word_is_signal: bool) -> Plan:
        """What to search for, now that the catalog has told what the first word is.

        Raises:
            NotEmbedded: the text of that plan is missing in `vectors`.
        """
        self.chosen = self._plan(first_word_is_signal)
        if self.chosen.parsed.text not in self.vectors:
            raise NotEmbedded
        return Plan(
            constraints=self.chosen.constraints,
            asked=self.chosen.asked,
            words=[term.word for term in self.chosen.terms],
            vectors=self.vectors[self.chosen.parsed.text],
        )

    def page(self, pool: Pool) -> Sequence[str]:
        """The version ids of the page."""
        self.mode = _mode(pool)
        self.scored = rank(
            pool.evidence, terms=self.chosen.terms, usable=pool.usable, mode=self.mode, limit=self._top_k
        )
        self.weights = term_weights(pool.evidence, terms=self.chosen.terms, usable=pool.usable)
        ids = [scored.evidence.version_id for scored in self.scored]
        self.known |= {id_: parsed for id_ in ids if (parsed := self._parsed.cached(id_)) is not None}
        return ids

    def workflows(self, found: Found) -> list[tuple[Scored, ParsedWorkflow]]:
        """The page with its workflows; what this version cannot read, or has no active version, is left out."""
        return [
            (scored, parsed)
            for scored in self.scored
            if (parsed := self._workflow(scored.evidence.version_id, found=found)) is not None
        ]

    def _workflow(self, version_id: str, *, found: Found) -> ParsedWorkflow | None:
        if (row := found.rows.get(version_id)) is None:
            _log.warning("served_workflow_without_version", version_id=version_id)
            return None
        document = row.document
        return self.known[version_id] if document is None else self._parsed.get(version_id, document)


def _mode(pool: Pool) -> SearchMode:
    if not any(pool.usable):
        return SearchMode.LABELS_ONLY
    return SearchMode.LEXICAL if pool.compared is None else SearchMode.HYBRID
