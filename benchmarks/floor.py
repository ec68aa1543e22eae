"""The floor of a search: numpy over the same rows in the memory of one process, on one thread, without a database."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
import numpy as np
import numpy.typing as npt
from pgvector.asyncpg import register_vector

from catalogs import CUSTOM_KEY
from formulary_catalog.domain.search.fit import MEANING_WEIGHT
from formulary_catalog.domain.search.label_weights import ANY, CUSTOM_WEIGHT, LABEL_WEIGHTS, SIGNAL_WEIGHT
from formulary_catalog.domain.workflows.labels import WILDCARD, Constraints
from formulary_catalog.embedding.model import VECTOR_DIMENSIONS
from text_vectors import Vectors
from workload import Question

BEST = 10
LABELS = ("severity", "environment", "priority", "custom")
"""The labels that questions of the workload give beside the signal; `custom` is the one custom key they give."""
_NOTHING = ""
"""Stands for the values of a label that a row does not have."""
_COLUMNS = f"""
version_id, namespace, signal_type, leading_row, signal_types, severity, environment, priority,
array(select jsonb_array_elements_text(custom -> '{CUSTOM_KEY}')) as custom, emb
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The best rows in order of meaning and labels together, with their cosines; and how many rows are allowed."""

    version_ids: tuple[str, ...]
    cosines: tuple[float, ...]
    total: int


class Floor:
    """The search rows of a generated catalog as arrays, sorted by tenant and signal; labels are sets of bits.

    No generated workflow names a signal beside `*`, so a row of `*` or of no signal counts for every signal.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], vectors: Vectors) -> None:
        self.ids = [row["version_id"] for row in rows]
        self.vectors = vectors
        self.tenants = _numbered(row["namespace"] for row in rows)
        self.signals = _numbered(row["signal_type"] for row in rows)
        self.bits = {label: _numbered(value for row in rows for value in _declared(row[label])) for label in LABELS}
        self.tenant = np.array([self.tenants[row["namespace"]] for row in rows], np.int32)
        self.signal = np.array([self.signals[row["signal_type"]] for row in rows], np.int32)
        self.leading = np.array([row["leading_row"] for row in rows])
        # A line for each signal: which rows are of workflows that declare it.
        self.declaring = np.array([[signal in row["signal_types"] for row in rows] for signal in self.signals])
        self.labels = {
            label: np.array([self.mask(label, _declared(row[label])) for row in rows], np.uint64) for label in LABELS
        }
        places = self.tenant.astype(np.int64) * len(self.signals) + self.signal
        self._starts = np.searchsorted(places, np.arange(len(self.tenants) * len(self.signals) + 1))

    @classmethod
    async def of(cls, dsn: str) -> "Floor":
        """The rows of the database with this DSN, of its owner."""
        connection = await asyncpg.connect(dsn, server_settings={"search_path": "formulary, public"})
        try:
            await register_vector(connection)
            count = await connection.fetchval("select count(*) from workflow_search")
            vectors = np.empty((count, VECTOR_DIMENSIONS), np.float32)
            rows: list[Mapping[str, Any]] = []
            statement = f"select {_COLUMNS} from workflow_search order by namespace, signal_type, version_id"
            async with connection.transaction():
                async for row in connection.cursor(statement, prefetch=2000):
                    vectors[len(rows)] = row["emb"].to_numpy()
                    rows.append({name: value for name, value in row.items() if name != "emb"})
        finally:
            await connection.close()
        return cls(rows, vectors)

    def mask(self, label: str, values: Iterable[str]) -> np.uint64:
        """The bits of these values; a value that no row has is none."""
        bits = self.bits[label]
        return np.uint64(sum(1 << bits[value] for value in values if value in bits))

    def scan(self, question: Question, vector: Vectors) -> Nearest:
        """Look at the labels of every row."""
        tenant = self.tenants[question.namespace]
        allowed = self.tenant == tenant
        wanted = self._wanted_signals(question.constraints)
        allowed &= np.isin(self.signal, wanted) if wanted else self.leading
        return self._nearest(np.flatnonzero(allowed), question, vector)

    def sorted(self, question: Question, vector: Vectors) -> Nearest:
        """Look at the rows of the tenant and the signal only."""
        first = self.tenants[question.namespace] * len(self.signals)
        wanted = self._wanted_signals(question.constraints)
        if not wanted:
            start, end = self._starts[first], self._starts[first + len(self.signals)]
            return self._nearest(start + np.flatnonzero(self.leading[start:end]), question, vector)
        runs = [np.arange(self._starts[first + signal], self._starts[first + signal + 1]) for signal in wanted]
        return self._nearest(np.concatenate(runs), question, vector)

    def _wanted_signals(self, constraints: Constraints) -> list[int]:
        wanted = constraints.values.get("signal_type")
        if wanted is None:
            return []
        return [self.signals[signal] for signal in (*wanted, WILDCARD, "") if signal in self.signals]

    def _nearest(self, rows: npt.NDArray[np.int64], question: Question, vector: Vectors) -> Nearest:
        given = {label: wanted for label, wanted in question.constraints.values.items() if label in LABELS}
        for wanted in question.constraints.custom.values():
            given["custom"] = wanted
        declared = {label: self.labels[label][rows] for label in given}
        allowed = np.ones(len(rows), np.bool_)
        for label, wanted in given.items():
            allowed &= declared[label] & self.mask(label, [*wanted, WILDCARD, _NOTHING]) != 0
        rows = rows[allowed]
        cosines = self.vectors[rows] @ vector
        order = -MEANING_WEIGHT * cosines
        for label, wanted in given.items():
            order -= self._declared_evidence(declared[label][allowed], label=label, wanted=wanted)
        if "signal_type" in question.constraints.values:
            exact = ~np.isin(self.signal[rows], [self.signals.get(signal, -1) for signal in (WILDCARD, "")])
            any_ = self.signal[rows] == self.signals.get(WILDCARD, -1)
            order -= LABEL_WEIGHTS["signal_type"] * (exact + ANY * any_)
        if (mentioned := self.signals.get(question.signal)) is not None:
            order -= SIGNAL_WEIGHT * self.declaring[mentioned, rows]
        best = np.argpartition(order, BEST)[:BEST] if len(rows) > BEST else np.arange(len(rows))
        best = best[np.argsort(order[best], kind="stable")]
        return Nearest(
            version_ids=tuple(self.ids[row] for row in rows[best]),
            cosines=tuple(cosines[best].tolist()),
            total=len(rows),
        )

    def _declared_evidence(
        self, declared: npt.NDArray[np.uint64], *, label: str, wanted: Iterable[str]
    ) -> npt.NDArray[np.float64]:
        exact = declared & self.mask(label, wanted) != 0
        any_ = declared & self.mask(label, [WILDCARD]) != 0
        weight = CUSTOM_WEIGHT if label == "custom" else LABEL_WEIGHTS[label]
        return weight * np.where(exact, 1.0, ANY * any_)


def _numbered(values: Iterable[str]) -> dict[str, int]:
    """The distinct values in the order in which they sort, each with its number."""
    return {value: number for number, value in enumerate(sorted(set(values)))}


def _declared(values: Sequence[str]) -> Sequence[str]:
    return values or (_NOTHING,)
