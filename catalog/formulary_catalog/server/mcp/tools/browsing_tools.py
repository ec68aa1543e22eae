"""The tool that lists runs that wait."""

from formulary_catalog.domain.answers.browsing import PendingApprovals
from formulary_catalog.operations.arguments.browsing import ApprovalsArguments
from formulary_catalog.operations.operation import Call
from formulary_catalog.operations.workflows import short
from formulary_catalog.server.mcp.tools.catalog_tools import catalog_tool


async def _approvals(call: Call[ApprovalsArguments]) -> PendingApprovals:
    return await call.services.approvals.pending(call.arguments.request, context=call.context, caller=call.caller)


WAITING_TOOL = catalog_tool(
    name="list_pending_approvals",
    title="List runs that wait for a person",
    description=(
        "Which runs wait for an approval, why, and until when, to tell the people who decide. It approves nothing; "
        "get_invocation_status follows one run."
    ),
    action="read.approvals",
    arguments=ApprovalsArguments,
    answer=PendingApprovals,
    run=_approvals,
    shrink=short,
    narrowed_by=("namespace", "limit"),
)

APPROVALS_TOOLS = (WAITING_TOOL,)
