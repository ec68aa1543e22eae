"""The parameters of the tools that browse. Their bounds are checked in `domain/search/browsing`."""

from formulary_catalog.domain.search.browsing import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_NAME_LENGTH,
    RISK_LEVELS,
)
from formulary_catalog.domain.search.cursor import MAX_CURSOR_LENGTH
from formulary_catalog.domain.workflows.relations import MAX_DEPTH, RELATIONS
from formulary_catalog.domain.workflows.sections import SECTIONS
from formulary_catalog.server.calls.parameters import WORKFLOW_ID, CallParameter, ParameterKind

SIGNAL_TYPE = CallParameter(
    name="signal_type", description="Those that answer this signal or alert.", examples=("OOMKilled",)
)
ACTION_TYPE = CallParameter(
    name="action_type", description="Those with this action.", examples=("IncreaseMemoryLimits",)
)
NAMESPACE = CallParameter(name="namespace", description="Those of this namespace.", examples=("formulary",))
RISK_LEVEL = CallParameter(
    name="risk_level", description="Those with this risk.", examples=("low",), suggested=RISK_LEVELS
)
STATUS = CallParameter(name="status", description="Active; others are for people.", examples=("Active",))
LIMIT = CallParameter(
    name="limit",
    description=f"At most so many; {DEFAULT_LIMIT} without it.",
    examples=(10,),
    kind=ParameterKind.INTEGER,
    bounds=(1, MAX_LIMIT),
)
CURSOR = CallParameter(
    name="cursor",
    description="next_cursor of the answer before, with the same filters.",
    examples=("WyJmb3JtdWxhcnkiXQ",),
    max_length=MAX_CURSOR_LENGTH,
)
ENTITY = CallParameter(
    name="entity",
    description="A workflow_id, a signal type or an action type.",
    examples=("oom-raise-memory-limit", "OOMKilled"),
    required=True,
    max_length=MAX_NAME_LENGTH,
)
DEPTH = CallParameter(
    name="depth",
    description="Steps to walk; 1 without it.",
    examples=(2,),
    kind=ParameterKind.INTEGER,
    bounds=(1, MAX_DEPTH),
)
RELATION_KINDS = CallParameter(
    name="relations",
    description=f"Only these, separated by commas: {', '.join(RELATIONS)}.",
    examples=("escalatesTo, requires",),
    many=True,
    separator=",",
)
NAME = CallParameter(
    name="name",
    description="A name or a part of one, a version_id, a signal or alert, or a title.",
    examples=("memory-limit", "KubePodCrashLooping"),
    required=True,
    max_length=MAX_NAME_LENGTH,
)
SECTION = CallParameter(
    name="section",
    description="The section to read.",
    examples=("when_not_to_use",),
    required=True,
    suggested=SECTIONS,
)

LISTING = (SIGNAL_TYPE, ACTION_TYPE, NAMESPACE, RISK_LEVEL, STATUS, LIMIT, CURSOR)
RELATED = (ENTITY, DEPTH, RELATION_KINDS, LIMIT)
NAMES = (NAME,)
IMPACT = (WORKFLOW_ID,)
SECTION_OF = (WORKFLOW_ID, SECTION)
APPROVALS = (NAMESPACE, LIMIT)
