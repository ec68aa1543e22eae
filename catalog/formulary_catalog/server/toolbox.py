"""Every tool that is served."""

from formulary_catalog.server.governance_tools import GOVERNANCE_TOOLS
from formulary_catalog.server.invocation_tools import INVOCATION_TOOLS
from formulary_catalog.server.tools import CATALOG_TOOLS, DETAILS_TOOL

LISTED_TOOLS = (*CATALOG_TOOLS, *INVOCATION_TOOLS, *GOVERNANCE_TOOLS)
TOOLS_BY_NAME = {tool.name: tool for tool in LISTED_TOOLS} | {"get_playbook_details": DETAILS_TOOL}
"""Every name that is answered; the last is the older name of the details tool, kept for existing clients."""
