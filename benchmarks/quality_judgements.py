"""Judged queries: the YAML of `judgements/README.md`, and what the catalog may answer to each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.workflows.labels import DIMENSIONS, wire_name
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.kernel.search.planning import SearchPlan
from formulary_catalog.loading.documents import read_documents
from formulary_catalog.loading.files import find_manifests
from formulary_catalog.loading.manifests import sort_out

NAMESPACE = "formulary"
_BENCH = Path(__file__).parent
KINDS = ("structured", "alert", "symptom", "root-cause", "pager", "misspelt", "pasted", "nothing")
BEST, ACCEPTABLE, WRONG = 2, 1, 0
DIMENSION_OF = {wire_name(dimension): dimension for dimension in DIMENSIONS}


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


_Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
_Values = Annotated[tuple[_Text, ...], BeforeValidator(_as_tuple)]


class JudgedCatalog(NamedTuple):
    """A directory of workflows and the directory of the queries that were judged for it."""

    workflows: Path
    judgements: Path


STARTER = JudgedCatalog(_BENCH.parent / "catalog" / "workflows", _BENCH / "judgements")
RUNBOOKS = JudgedCatalog(_BENCH / "runbooks" / "workflows", _BENCH / "runbooks" / "judgements")
CATALOGS = (STARTER, RUNBOOKS)


class Judgement(BaseModel):
    """One query and its right answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: _Text
    kind: Literal["structured", "alert", "symptom", "root-cause", "pager", "misspelt", "pasted", "nothing"]
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
        Judgement.model_validate(query)
        for file in files
        for query in yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader)
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


def ranked_words(judgement: Judgement, *, plan: SearchPlan) -> str:
    """The query without the severity in second place: that harms the simple rankings too."""
    words = judgement.query.split()
    return " ".join(words[:1] + words[2:] if plan.parsed.severity else words)


def allowed_names(plan: SearchPlan, entries: Sequence[CatalogEntry]) -> list[str]:
    """The workflows that the search may return."""
    return [entry.name for entry in entries if allowed(entry.labels, plan.constraints)]


def unknown_names(judgement: Judgement, known: Mapping[str, object]) -> list[str]:
    """Names in the judgement that no workflow has."""
    return [name for name in (*judgement.best, *judgement.acceptable) if name not in known]
