"""The `filters` object of a search, as DD-HAPI-001 has it: the label parameters without their prefix.

The MCP tool and the REST search accept it beside the flat parameters and by the same rules. No tool lists it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from formulary_catalog.errors import InvalidInput
from formulary_catalog.server.calls.arguments import canonical_label, read_arguments, recordable
from formulary_catalog.server.calls.parameters import LABEL_PREFIX, CallParameter, ParameterKind

FILTERS = CallParameter(
    name="filters",
    description="Label values by the name of the label.",
    examples=({"environment": "production", "priority": "P0"},),
    kind=ParameterKind.OBJECT,
    recorded=False,
)
_PREFIX = f"{FILTERS.name}."


def read_search_arguments(given: Mapping[str, Any], *, parameters: Sequence[CallParameter]) -> dict[str, Any]:
    """The arguments of a search as `read_arguments` reads them; members of `filters` become label parameters.

    Raises:
        InvalidInput: as `read_arguments`; or `filters` and a flat parameter have different values for one label.
    """
    flat = {name: value for name, value in given.items() if name != FILTERS.name}
    read = read_arguments(flat, parameters=parameters)
    nested = read_arguments({FILTERS.name: given.get(FILTERS.name)}, parameters=(FILTERS,)).get(FILTERS.name, {})
    labels = read_arguments(
        {_PREFIX + key: value for key, value in nested.items()},
        parameters=filter_parameters(parameters),
        name_of=filter_label,
    )
    spelled = {canonical_label(parameter.name): parameter.name for parameter in parameters}
    for name, value in labels.items():
        if read.get(name, value) != value:
            raise InvalidInput(
                f"{spelled[name]} is given twice, in filters with another value; give it once", field=spelled[name]
            )
    return read | labels


def recordable_search(given: Mapping[str, Any], *, parameters: Sequence[CallParameter]) -> dict[str, Any]:
    """The refused arguments of a search as the audit trail may keep them: of unknown filters only the names."""
    flat = {name: value for name, value in given.items() if name != FILTERS.name}
    filters = given.get(FILTERS.name)
    if not isinstance(filters, Mapping):
        return recordable(given if filters is not None else flat, parameters=parameters)
    kept = recordable(filters, parameters=filter_parameters(parameters), name_of=filter_label)
    return recordable(flat, parameters=parameters) | {FILTERS.name: kept}


def filter_parameters(parameters: Sequence[CallParameter]) -> tuple[CallParameter, ...]:
    """The label parameters among these, under the names that they have in `filters`."""
    labels = {canonical_label(parameter.name): parameter for parameter in parameters}
    return tuple(
        replace(parameter, name=_PREFIX + name.removeprefix(LABEL_PREFIX))
        for name, parameter in labels.items()
        if name.startswith(LABEL_PREFIX)
    )


def filter_label(name: str) -> str:
    """`signal_type`, with or without the prefix of a filter or of a label, as `label.signal-type`."""
    key = name.removeprefix(_PREFIX)
    return canonical_label(key if key.startswith(("label.", "label_")) else LABEL_PREFIX + key)
