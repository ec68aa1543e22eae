"""Training examples: which document each query should find, collected from the sources that training may use.

`adapter` trains on what `collect` returns. Sources: the problems of this directory, the judged queries of the part
`tune` with the starter catalog, and the concepts of `synonyms.yaml`. Held queries are never read into an example.
Texts are prepared as the product prepares them before it embeds them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, StringConstraints

from formulary_catalog.domain.search.query import parse_query
from formulary_catalog.domain.search.synonyms import synonyms
from formulary_catalog.domain.workflows.manifest import Description, RemediationWorkflow, WorkflowSpec, embedding_text

ROOT = Path(__file__).parents[1]
PROBLEMS = Path(__file__).parent / "problems"
JUDGEMENTS = ROOT / "benchmarks" / "judgements"
WORKFLOWS = ROOT / "catalog" / "workflows"
_READ_BY_RULES = "pasted"
"""What programs print: `domain/pasted` finds its problem, so the adapter need not learn its columns."""

_Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Kind = Literal["symptom", "paraphrase", "root-cause", "pager", "alert", "structured", "misspelt"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(_Model):
    """One remedy of `problems/`, described like a RemediationWorkflow, and queries that it answers, by kind."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$")]
    when_to_use: _Text
    what: _Text
    queries: Mapping[Kind, tuple[_Text, ...]]

    @property
    def embedding_text(self) -> str:
        """The text that the product would embed for such a workflow."""
        embedded: dict[str, Any] = {"description": Description(what=self.what, when_to_use=self.when_to_use)}
        return embedding_text(WorkflowSpec.model_construct(**embedded), name=self.name)


class Example(_Model):
    """A query, the indexes of the documents that are right for it, and of those that would do no harm."""

    kind: Kind
    query: str
    best: tuple[int, ...]
    acceptable: tuple[int, ...] = ()


class Examples(_Model):
    """Everything that the adapter is trained on.

    `synonyms` holds for each concept what is said of it, and the words that workflows use for it.
    """

    documents: tuple[str, ...]
    queries: tuple[Example, ...]
    synonyms: tuple[tuple[tuple[str, ...], str], ...]

    def as_json(self) -> str:
        """One line for each document, query and concept, so that a change shows as a change of lines."""
        parts = self.model_dump(mode="json")
        lines = {part: ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) for part, rows in parts.items()}
        return "{" + ",\n".join(f'"{part}": [\n{rows}\n]' for part, rows in lines.items()) + "}\n"

    @property
    def digest(self) -> str:
        """The sha256 of `as_json`, in hexadecimal. Recorded in the adapter."""
        return hashlib.sha256(self.as_json().encode()).hexdigest()


def collect() -> Examples:
    """All examples, in a fixed order. Raises ValidationError if a file does not have its form."""
    problems = read_problems()
    workflows = [_manifest_of(file) for file in sorted(WORKFLOWS.glob("*.yaml"))]
    documents = [problem.embedding_text for problem in problems] + [_embedding_text(workflow) for workflow in workflows]
    return Examples(
        documents=tuple(documents),
        queries=(*_of_problems(problems), *_judged(workflows, start=len(problems))),
        synonyms=tuple((each.said, " ".join([each.concept, *each.words])) for each in synonyms().concepts),
    )


def read_problems(directory: Path = PROBLEMS) -> list[Problem]:
    """The problems in the order of their files. Raises ValidationError if one does not have the form of `Problem`."""
    return [Problem.model_validate(each) for file in sorted(directory.glob("*.yaml")) for each in _read(file)]


def _of_problems(problems: Sequence[Problem]) -> Iterator[Example]:
    for index, problem in enumerate(problems):
        for kind, queries in problem.queries.items():
            for query in queries:
                yield Example(kind=kind, query=parse_query(query).text, best=(index,))


def _judged(workflows: Sequence[RemediationWorkflow], *, start: int) -> Iterator[Example]:
    indexes = {workflow.metadata.name: start + index for index, workflow in enumerate(workflows)}
    for file in sorted(JUDGEMENTS.glob("*.yaml")):
        for judged in _read(file):
            if judged["part"] != "tune" or not judged["best"] or judged["kind"] == _READ_BY_RULES:
                continue
            yield Example(
                kind=judged["kind"],
                query=parse_query(judged["query"]).text,
                best=tuple(indexes[name] for name in judged["best"]),
                acceptable=tuple(indexes[name] for name in judged["acceptable"]),
            )


def _embedding_text(workflow: RemediationWorkflow) -> str:
    return embedding_text(workflow.spec, name=workflow.metadata.name)


def _manifest_of(file: Path) -> RemediationWorkflow:
    (document,) = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    return RemediationWorkflow.model_validate(document)


def _read(file: Path) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return read
