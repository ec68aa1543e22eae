"""Judged queries: the YAML of `judgements/README.md`, and what the catalog may answer to each."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from formulary_catalog.domain.analysis import RequestContext
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.labels import DIMENSIONS, normalize_detected
from formulary_catalog.domain.matching import allowed
from formulary_catalog.domain.query import first_word, is_canonical
from formulary_catalog.domain.request import ContextReference, SearchRequest, search_request, wire_name
from formulary_catalog.loading.documents import read_documents
from formulary_catalog.loading.files import find_manifests
from formulary_catalog.loading.manifests import sort_out
from formulary_catalog.search.planning import SearchPlan, plan_search

NAMESPACE = "formulary"
KINDS = ("structured", "alert", "symptom", "root-cause", "pager", "misspelt", "nothing")
BEST, ACCEPTABLE, WRONG = 2, 1, 0
_DIMENSION_OF = {wire_name(dimension): dimension for dimension in DIMENSIONS}


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


_Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
_Values = Annotated[tuple[_Text, ...], BeforeValidator(_as_tuple)]


class Judgement(BaseModel):
    """One query and its right answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: _Text
    kind: Literal["structured", "alert", "symptom", "root-cause", "pager", "misspelt", "nothing"]
    part: Literal["tune", "held"]
    query: _Text
    best: tuple[_Text, ...]
    acceptable: tuple[_Text, ...]
    labels: dict[_Text, _Values]
    detected: dict[_Text, bool | str] = {}

    @property
    def has_answer(self) -> bool:
        """Whether some workflow is right."""
        return bool(self.best)

    def grade(self, name: str) -> int:
        """How right a workflow is: best, acceptable or wrong."""
        if name in self.best:
            return BEST
        return ACCEPTABLE if name in self.acceptable else WRONG

    @property
    def ideal(self) -> list[int]:
        """The grades of a perfect answer."""
        return [BEST] * len(self.best) + [ACCEPTABLE] * len(self.acceptable)


def read_judgements(path: Path) -> list[Judgement]:
    """The queries of a file, or of all files of a directory in the order of their names.

    Raises:
        ValidationError: a query is not in the form of `judgements/README.md`.
    """
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [
        Judgement.model_validate(query) for file in files for query in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]


def read_entries(directory: Path) -> list[CatalogEntry]:
    """The workflows that the manifests below a directory serve.

    Raises:
        SystemExit: a manifest is refused.
    """
    files = find_manifests([directory]).files
    documents = [document for file in files for document in read_documents(file.path, name=file.name)]
    manifests = sort_out(documents, default_namespace=NAMESPACE)
    if manifests.rejections:
        raise SystemExit(f"manifests are refused: {manifests.rejections[0].message}")
    return manifests.served


def signal_types(entries: Iterable[CatalogEntry]) -> frozenset[str]:
    """The signal types that the workflows declare, as written."""
    return frozenset(signal for entry in entries for signal in entry.workflow.spec.labels.signal_type)


def request_of(judgement: Judgement, *, top_k: int = 10) -> SearchRequest:
    """The search that the query stands for; what was detected comes from the incident of that id."""
    return search_request(
        query=judgement.query,
        labels={_DIMENSION_OF.get(name, name): values for name, values in judgement.labels.items()},
        top_k=top_k,
        context=ContextReference(remediation_id=judgement.id) if judgement.detected else None,
    )


def context_of(judgement: Judgement) -> RequestContext | None:
    """The incident that carries the detected labels; None without any."""
    if not judgement.detected:
        return None
    detected = {name: normalize_detected(value) for name, value in judgement.detected.items()}
    return RequestContext(namespace=NAMESPACE, name=judgement.id, remediation_id=judgement.id, detected_labels=detected)


def plan_of(judgement: Judgement, *, signals: frozenset[str]) -> SearchPlan:
    """What the search demands and ranks by; `signals` are in use in the catalog."""
    word = first_word(judgement.query)
    return plan_search(
        request_of(judgement),
        context=context_of(judgement),
        first_word_is_signal=is_canonical(word) or word in signals,
        strict_keys=frozenset(),
    )


def ranked_words(judgement: Judgement, *, plan: SearchPlan) -> str:
    """The query without the severity that the plan took from it: that one only filters."""
    words = judgement.query.split()
    return " ".join(words[:1] + words[2:] if plan.parsed.severity else words)


def allowed_names(plan: SearchPlan, entries: Sequence[CatalogEntry]) -> list[str]:
    """The workflows that the search may return."""
    return [entry.name for entry in entries if allowed(entry.labels, plan.constraints)]


def unknown_names(judgement: Judgement, known: Mapping[str, object]) -> list[str]:
    """Names in the judgement that no workflow has."""
    return [name for name in (*judgement.best, *judgement.acceptable) if name not in known]
