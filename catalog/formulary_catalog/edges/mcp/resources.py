"""Workflows as MCP resources: the details of one, or a section of it, by its address (DESIGN section 7)."""

from dataclasses import dataclass
from urllib.parse import unquote

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

from formulary_catalog.domain.answers.catalog import WorkflowSummary
from formulary_catalog.domain.workflows.identity import URI_SCHEME
from formulary_catalog.domain.workflows.sections import SECTIONS
from formulary_catalog.edges.calls.failures import failure_of
from formulary_catalog.errors import InvalidInput, NotFound
from formulary_catalog.operations.json_text import shown

MIME_TYPE = "application/json"
TEMPLATES = (
    ResourceTemplate(
        uri_template="workflow://{namespace}/{name}",
        name="workflow",
        title="Workflow",
        description="The latest active version of a workflow, in full.",
        mime_type=MIME_TYPE,
    ),
    ResourceTemplate(
        uri_template="workflow://{namespace}/{name}@{version}",
        name="workflow_version",
        title="Workflow version",
        description="One version of a workflow, in full.",
        mime_type=MIME_TYPE,
    ),
    ResourceTemplate(
        uri_template="workflow://{namespace}/{name}#{section}",
        name="workflow_section",
        title="Section of a workflow",
        description=f"One section of a workflow: {', '.join(SECTIONS)}.",
        mime_type=MIME_TYPE,
    ),
)


@dataclass(frozen=True, slots=True)
class ResourceName:
    """What an address names: a workflow in any form of its name, and a section of it; empty for all of it."""

    workflow: str
    section: str = ""


def named(uri: str) -> ResourceName:
    """What `workflow://namespace/name`, `…@version` and `…#section` name.

    Raises:
        NotFound: the uri is of another form.
        InvalidInput: there is no such section.
    """
    if not uri.startswith(URI_SCHEME):
        raise NotFound(f"there is no resource {shown(uri)}; use workflow://namespace/name", reference=uri)
    workflow, _, section = uri.removeprefix(URI_SCHEME).partition("#")
    if section and section not in SECTIONS:
        raise InvalidInput(
            f"{shown(section)} is no section of a workflow; there are {', '.join(SECTIONS)}", field="uri"
        )
    return ResourceName(unquote(workflow), section)


def workflow_resource(workflow: WorkflowSummary) -> Resource:
    """One line of `resources/list`."""
    return Resource(
        uri=workflow.uri,
        name=workflow.workflow_id,
        title=workflow.title,
        description=f"{workflow.action_type}, risk {workflow.risk_level}",
        mime_type=MIME_TYPE,
    )


def resource(uri: str, text: str) -> ReadResourceResult:
    """JSON as the content of the resource, never cut."""
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=MIME_TYPE, text=text)])


def refusal(uri: str, error: Exception) -> MCPError:
    """The protocol's error for a failed read. Not found is `invalid params` to the protocol; other codes are ours."""
    failure = failure_of(error)
    code = INVALID_PARAMS if isinstance(error, InvalidInput | NotFound) else failure.code
    data = {"uri": uri, "code": failure.code, "retry": failure.retryable, **failure.details}
    return MCPError(code=code, message=failure.message, data=data)
