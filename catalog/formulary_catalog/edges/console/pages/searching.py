"""Try a search: what an agent would get, why, and why a workflow is missing; of a recorded search, what it got then.

An address is the whole question, so that it can be sent to somebody else, who then sees what they may see.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from pydantic import Field

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.answer_size import AnswerSize, allowance, size_of
from formulary_catalog.domain.answers.catalog import SearchAnswer, SearchMode
from formulary_catalog.domain.audit.chain import TRIAL
from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.domain.reading import IncidentAnswer, TargetAnswer
from formulary_catalog.domain.search.explanation.answers import Explanation, RecordedAnswer
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.text import MAX_LABEL_LENGTH, renamed
from formulary_catalog.domain.workflows.labels import LABEL_DIMENSIONS, wire_name
from formulary_catalog.domain.workflows.requests import MAX_NAME_LENGTH
from formulary_catalog.edges.calls.failures import failure_of
from formulary_catalog.edges.calls.incident import reference_text
from formulary_catalog.edges.console.route import ConsoleRoute, asked, filled
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.rest.calls import services_of
from formulary_catalog.errors import FormularyError, InvalidInput, NotFound, Unavailable
from formulary_catalog.operations.arguments.catalog import Words, labelled
from formulary_catalog.operations.arguments.reading import ExplainArguments
from formulary_catalog.operations.search import search_request_of
from formulary_catalog.operations.services import Services

SEARCH = f"{CONSOLE_PATH}/search"
_FIRST_LABELS = ("severity", "component", "environment", "priority")
_PRESENT = "true"
_FORM = {
    "exclude_keywords": "“Without the words”",
    "top_k": "“Maximum number of results”",
    "min_confidence": "“Confidence of at least”",
    "action_type": "“Action”",
    "search_id": "the id of a search",
    "when_to_use": "when to use it",
}
"""What messages name, as the form of the page and the pages of workflows call it."""
_RANKED_BY = {
    SearchMode.HYBRID: "meaning and words",
    SearchMode.LEXICAL: "words alone",
    SearchMode.LABELS_ONLY: "labels alone",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelField:
    """A label of the form: the name of its field, what it is called, and values that are usual."""

    name: str
    field: str
    label: str
    suggested: tuple[str, ...]


_LABELS = [
    LabelField(
        name=each.name,
        field=f"label.{wire_name(each.name)}",
        label=each.name.replace("_", " ").capitalize(),
        suggested=each.suggested,
    )
    for each in LABEL_DIMENSIONS
]
_MORE_FIELDS = frozenset(
    {
        *("exclude_keywords", "keywords", "namespace", "action_type", "top_k", "min_confidence"),
        *(each.field for each in _LABELS if each.name not in _FIRST_LABELS),
    }
)
"""Fields that are folded away while they are empty."""
_IN_THE_FORM = {**_FORM, **{each.field: f"“{each.label}”" for each in _LABELS}}

router = APIRouter(route_class=ConsoleRoute)


@labelled(kind=Words)
class TrialArguments(ExplainArguments):
    """A search, or a recorded one by its id, and perhaps a workflow to ask about.

    The case is an incident that is known, a target, or one that is made up of labels: values between commas, any of
    which fits.
    """

    workflow: str = Field(
        "", max_length=MAX_NAME_LENGTH, description="Workflow to ask about.", examples=["oom-raise-memory-limit"]
    )
    incident: str = Field(
        "",
        max_length=2 * MAX_LABEL_LENGTH,
        description="Remediation id, or namespace/name of the AIAnalysis.",
        examples=["rr-2026-0042"],
    )
    detected: Words = Field(
        (), description="Detected labels of the case, separated by commas.", examples=["gitOpsTool=flux, hpaEnabled"]
    )

    @property
    def fields(self) -> dict[str, str]:
        """What the form shows of it, by the names of its fields."""
        return _fields(
            query=self.query,
            labels=self.labels,
            incident=self.incident,
            target=self.target,
            detected=self.detected,
            exclude_keywords=self.exclude_keywords,
            keywords=self.keywords,
            namespace=self.namespace,
            action_type=self.action_type,
            top_k=self.top_k,
            min_confidence=self.min_confidence or None,
            workflow=self.workflow,
        )

    @property
    def context(self) -> ContextReference:
        """The incident.

        Raises:
            ContextError: it is no identifier.
        """
        named = reference_text(self.incident, source="incident")
        return ContextReference(analysis=named) if "/" in named else ContextReference(remediation_id=named)

    @property
    def detected_labels(self) -> dict[str, str]:
        """The detected labels by key; one without a value is there.

        Raises:
            InvalidInput: a key is missing.
        """
        pairs = [[part.strip() for part in each.partition("=")] for each in self.detected]
        if not all(key for key, _, _ in pairs):
            raise InvalidInput(
                "detected has a value without a key; write key=value, such as gitOpsTool=flux", field="detected"
            )
        return {key: value if equals else _PRESENT for key, equals, value in pairs}


@dataclass(slots=True, kw_only=True)
class Trial:
    """What came of it. Either `answer` is there, with the evidence of each hit by version id, or `recorded`."""

    answer: SearchAnswer | None = None
    size: AnswerSize | None = None
    evidence: dict[str, Explanation] = field(default_factory=dict)
    incident: IncidentAnswer | None = None
    target: TargetAnswer | None = None
    recorded: RecordedAnswer | None = None
    why: Explanation | None = None
    why_problem: str = ""
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> str:
        """The answer as it is sent."""
        return self.answer.model_dump_json(exclude_unset=True) if self.answer is not None else ""

    @property
    def heaviest(self) -> float:
        """The most that a part of the evidence could count: bars of all hits have one measure."""
        shown = [*self.evidence.values(), *([self.why] if self.why is not None else [])]
        return max((part.at_most for each in shown for part in each.evidence), default=1.0) or 1.0


@router.get(SEARCH)
async def search(request: Request) -> Response:
    """The form, with its values, and below it what they lead to."""
    given = filled(request)
    trial, problem, status = Trial(), "", 200
    if given:
        try:
            arguments = await asked(request, TRIAL, TrialArguments)
            trial = await _trial(arguments, services=services_of(request), caller=visitor_of(request).caller)
        except Unavailable:
            raise
        except FormularyError as error:
            failure = failure_of(error)
            problem, status = failure.message, failure.status
    fields = trial.fields or {name: ", ".join(each) if isinstance(each, list) else each for name, each in given.items()}
    return render(
        request,
        "search.html",
        status=status,
        title="Try a search",
        fields=fields,
        first_labels=[each for each in _LABELS if each.name in _FIRST_LABELS],
        more_labels=[each for each in _LABELS if each.name not in _FIRST_LABELS],
        is_narrowed=bool(fields.keys() & _MORE_FIELDS),
        again=f"{SEARCH}?{urlencode(fields)}",
        trial=trial,
        problem=problem,
        heaviest=trial.heaviest,
        ranked_by=_RANKED_BY,
        said=lambda message: renamed(message, _IN_THE_FORM),
    )


async def _trial(arguments: TrialArguments, *, services: Services, caller: Caller) -> Trial:
    if arguments.search_id:
        recorded = await services.explaining.recorded(arguments.search_id, caller=caller)
        trial = Trial(recorded=recorded, fields=_fields_of(recorded))
    else:
        trial = await _searched(arguments, services=services, caller=caller)
        trial.fields = arguments.fields
    if arguments.workflow:
        try:
            # That of a hit is there already.
            trial.why = trial.evidence.get(arguments.workflow) or await _why(
                arguments, services=services, caller=caller
            )
        except Unavailable:
            raise
        except FormularyError as error:
            trial.why_problem = failure_of(error).message
    return trial


async def _searched(arguments: TrialArguments, *, services: Services, caller: Caller) -> Trial:
    """The search as an agent's call of the tool makes it, and what speaks for each of its hits."""
    wanted = search_request_of(
        arguments,
        context=arguments.context,
        max_bytes=allowance(arguments.top_k),
        detected_labels=arguments.detected_labels,
    )
    target = arguments.target_reference
    answer = await services.catalog.search(wanted, caller=caller, browsing=True)
    explained = await services.explaining.of_page(wanted, caller=caller)
    return Trial(
        answer=answer,
        size=size_of(answer),
        evidence={each.version_id: each for each in explained},
        incident=await _incident(arguments.incident, services=services, caller=caller),
        target=await services.targets.read(target, caller=caller) if target is not None else None,
    )


async def _incident(named: str, *, services: Services, caller: Caller) -> IncidentAnswer | None:
    """What the incident demands; None without one, and where its object is gone."""
    if not named:
        return None
    try:
        return await services.incidents.incident(named, caller=caller)
    except NotFound:
        return None


async def _why(arguments: TrialArguments, *, services: Services, caller: Caller) -> Explanation:
    if arguments.search_id:
        return await services.explaining.of_recorded(arguments.workflow, arguments.search_id, caller=caller)
    wanted = search_request_of(arguments, context=arguments.context, detected_labels=arguments.detected_labels)
    return await services.explaining.of_search(arguments.workflow, wanted, caller=caller)


def _fields_of(recorded: RecordedAnswer) -> dict[str, str]:
    """The same question again."""
    labels = {name.replace("-", "_"): values for name, values in recorded.labels.items()}
    detected = [f"{key}={value}" for key, value in recorded.detected_labels.items()]
    return _fields(
        query=recorded.query,
        labels=labels,
        incident=recorded.remediation_id or recorded.incident,
        detected=detected,
        exclude_keywords=recorded.exclude_keywords,
    )


def _fields(*, labels: Mapping[str, Iterable[str]], **others: str | Iterable[str] | float | None) -> dict[str, str]:
    values = {f"label.{wire_name(name)}": given for name, given in labels.items()} | others
    texts = {
        name: str(value) if isinstance(value, str | int | float) else ", ".join(value)
        for name, value in values.items()
        if value is not None
    }
    return {name: text for name, text in texts.items() if text}
