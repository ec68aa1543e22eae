"""Workflows as MCP resources: the details of one, by its address (DESIGN section 7)."""

from urllib.parse import unquote

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ReadResourceResult, ResourceTemplate, TextResourceContents

from formulary_catalog.domain.answers import WorkflowDetails
from formulary_catalog.errors import InvalidInput, NotFound
from formulary_catalog.server.calls.failures import failure_of
from formulary_catalog.server.calls.json_text import shown

SCHEME = "workflow://"
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
)


def workflow_of(uri: str) -> str:
    """What `workflow://` names: `namespace/name`, `namespace/name@version`, or any other form of a workflow's name.

    Raises:
        NotFound: the uri is of another form.
    """
    if not uri.startswith(SCHEME):
        raise NotFound(f"there is no resource {shown(uri)}; use workflow://namespace/name", reference=uri)
    return unquote(uri.removeprefix(SCHEME))


def resource(uri: str, details: WorkflowDetails) -> ReadResourceResult:
    """The details as the content of the resource, never cut."""
    contents = TextResourceContents(uri=uri, mime_type=MIME_TYPE, text=details.model_dump_json())
    return ReadResourceResult(contents=[contents])


def refusal(uri: str, error: Exception) -> MCPError:
    """The protocol's error for a failed read. Not found is `invalid params` to the protocol; other codes are ours."""
    failure = failure_of(error)
    code = INVALID_PARAMS if isinstance(error, InvalidInput | NotFound) else failure.code
    data = {"uri": uri, "code": failure.code, "retry": failure.retryable}
    return MCPError(code=code, message=failure.message, data=data)
