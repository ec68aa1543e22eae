"""What searches must find: `*.test.yaml` files beside workflows, and the judgement of an answer.

`formulary test` calls it. An expectation says what would be asked under which constraints, and which workflows come
first, are among the hits, or are none of them. The constraints are labels, or those of a target whose manifest and that
of its namespace lie beside the workflows.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.answers.catalog import SearchAnswer, WorkflowHit
from formulary_catalog.domain.search.request import MAX_QUERY_LENGTH, ContextReference, SearchRequest, search_request
from formulary_catalog.domain.targets.reference import parse_target
from formulary_catalog.domain.workflows.problems import each_problem
from formulary_catalog.errors import InvalidInput
from formulary_catalog.loading.documents import Rejection, file_of, read_documents
from formulary_catalog.loading.files import find_tests


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
_Texts = Annotated[list[_Text], BeforeValidator(_as_list)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class Expectation(_Part):
    """One search and what it must find. `labels` are those of an incident, by dimension; so are the others.

    `target` is what is broken, as `[NAMESPACE/]KIND/NAME`, in their place.
    """

    name: _Text
    query: Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_LENGTH)]
    target: str = ""
    labels: dict[_Text, _Texts] = Field(default_factory=dict)
    custom_labels: dict[_Text, _Texts] = Field(default_factory=dict, repr=False)
    detected_labels: dict[_Text, bool | _Text] = Field(default_factory=dict)
    first: _Texts = []
    among: _Texts = []
    never: _Texts = []

    @property
    def request(self) -> SearchRequest:
        """The search, as an agent makes it for such an incident.

        Raises:
            InvalidInput: a label is none of the dimensions, or the target is malformed or not alone.
        """
        if self.target and (self.labels or self.custom_labels or self.detected_labels):
            raise InvalidInput(
                "target is given, and labels too; the labels of a target are in its manifest", field="target"
            )
        return search_request(
            query=self.query,
            context=ContextReference(target=parse_target(self.target) if self.target else None),
            labels={name.replace("-", "_"): values for name, values in self.labels.items()},
            custom_labels={key: tuple(values) for key, values in self.custom_labels.items()},
            detected_labels={key: str(value) for key, value in self.detected_labels.items()},
        )

    @property
    def named(self) -> list[str]:
        """The workflows that it names."""
        return [*self.first, *self.among, *self.never]


class _File(_Part):
    tests: list[Expectation] = Field(min_length=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedIn:
    """An expectation and the file that it is in."""

    file: str
    expectation: Expectation


def expectations_in(roots: Sequence[Path], *, workflows: Collection[str]) -> list[ExpectedIn]:
    """All expectations in the `*.test.yaml` files of directories. `workflows`: the names of those that are tested.

    Raises:
        StartupError: a directory is missing or cannot be listed.
        InvalidInput: a file is broken or expects nothing, a label is unknown, or a workflow is none of these.
    """
    found = find_tests(roots)
    documents = [each for file in found.files for each in read_documents(file.path, name=file.name)]
    expected: list[ExpectedIn] = []
    for document in (*found.rejections, *documents):
        if isinstance(document, Rejection):
            raise InvalidInput(document.message, field="tests")
        try:
            tests = _File.model_validate(document.content).tests
        except ValidationError as error:
            field, problem = each_problem(error, model=_File)[0]
            raise InvalidInput(f"{document.source}: {field}: {problem}", field="tests") from None
        for each in tests:
            _check(each, source=document.source, workflows=workflows)
            expected.append(ExpectedIn(file=file_of(document.source), expectation=each))
    return expected


def failures(expectation: Expectation, answer: SearchAnswer) -> Iterator[str]:
    """What an answer does not meet, in a line each; none if it meets all."""
    hits = answer.workflows
    if expectation.first and not (hits and any(_is(hits[0], each) for each in expectation.first)):
        found = f"{hits[0].workflow_id} ({hits[0].confidence:.2f})" if hits else "nothing"
        yield f"first is {found}, not {' or '.join(expectation.first)}"
    for each in expectation.among:
        if not any(_is(hit, each) for hit in hits):
            yield f"{each} is not among the hits: {', '.join(hit.workflow_id for hit in hits) or 'there are none'}"
    for each in expectation.never:
        for number, hit in enumerate(hits, start=1):
            if _is(hit, each):
                yield f"{each} is hit number {number} ({hit.confidence:.2f})"


def _check(expectation: Expectation, *, source: str, workflows: Collection[str]) -> None:
    place = f"{source}: {expectation.name}"
    if not expectation.named:
        raise InvalidInput(f"{place}: expects nothing; give first, among or never", field="tests")
    for each in expectation.named:
        if _name(each) not in workflows:
            raise InvalidInput(f"{place}: there is no workflow {each!r} in what is tested", field="tests")
    try:
        _ = expectation.request
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {'' if expectation.target else 'labels: '}{error}", field="tests") from None


def _is(hit: WorkflowHit, named: str) -> bool:
    """Whether a hit is the workflow that is named, with its namespace or without."""
    name = _name(hit.workflow_id)
    return named in (name, f"{hit.namespace}/{name}")


def _name(workflow_id: str) -> str:
    return workflow_id.rpartition("/")[2]
