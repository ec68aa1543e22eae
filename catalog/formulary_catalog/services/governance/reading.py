"""What callers of the governance tools send, read into what the rules judge; every refusal is one line."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from formulary_catalog.domain.governance.actions import EnforceResult, ProposedAction
from formulary_catalog.domain.governance.contract import Contract, ContractSpec
from formulary_catalog.domain.governance.gate import VERSION, GateReport
from formulary_catalog.domain.workflows.manifest import Text
from formulary_catalog.domain.workflows.problems import problems
from formulary_catalog.errors import InvalidInput

MAX_ACTIONS = 100
_T = TypeVar("_T")
_UNNAMED = "contract"


class _GivenContract(ContractSpec):
    """A contract that comes with the call, rather than one in force."""

    model_config = ConfigDict(extra="forbid")

    version: Annotated[Text, StringConstraints(max_length=64)] = VERSION


_ACTIONS = TypeAdapter(Annotated[list[ProposedAction], Field(max_length=MAX_ACTIONS)])
_CONTRACT = TypeAdapter(_GivenContract)
_GATE_REPORT = TypeAdapter(GateReport)
_ENFORCE_RESULT = TypeAdapter(EnforceResult)


def read_actions(given: Sequence[Any], *, name: str) -> list[ProposedAction]:
    """The actions of argument `name`.

    Raises:
        InvalidInput: one breaks a rule, or there are too many.
    """
    return _read(_ACTIONS, given, name=name)


def read_contract(given: Mapping[str, Any]) -> Contract:
    """The contract of a call, in the spelling of the tools (`path_prefix`) or of manifests (`pathPrefix`).

    Raises:
        InvalidInput: it breaks a rule.
    """
    read = _read(_CONTRACT, given, name="contract")
    return Contract(
        name=f"{read.scope.name or _UNNAMED}@{read.version}", scope=read.scope.name, rules=tuple(read.rules)
    )


def read_gate_report(given: Mapping[str, Any]) -> GateReport:
    """A report that `governance_gate` made; its whole answer is taken too.

    Raises:
        InvalidInput: it is none.
    """
    return _read(_GATE_REPORT, given.get("gate_report", given), name="gate_report")


def read_enforce_result(given: Mapping[str, Any]) -> EnforceResult:
    """A result that `governance_enforce` made; its whole answer is taken too.

    Raises:
        InvalidInput: it is none.
    """
    return _read(_ENFORCE_RESULT, given.get("enforce_result", given), name="enforce_result")


def _read(adapter: TypeAdapter[_T], given: Any, *, name: str) -> _T:
    try:
        return adapter.validate_python(given)
    except ValidationError as error:
        _, message = problems(error)
        raise InvalidInput(f"{name} is invalid: {message}", field=name) from None
