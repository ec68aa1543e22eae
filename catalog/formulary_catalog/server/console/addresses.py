"""Addresses of the pages that other pages lead to: of a workflow and of an incident. Templates have them as well."""

from urllib.parse import quote

from formulary_catalog.server.http.errors import CONSOLE_PATH


def workflow_address(workflow_id: str) -> str:
    """The page of a workflow, by any form of its id: `name`, `namespace/name`, `name@version` or a version id."""
    return f"{CONSOLE_PATH}/catalog/{quote(workflow_id, safe='/@')}"


def incident_address(trace_id: str) -> str:
    """The page of a trace."""
    return f"{CONSOLE_PATH}/incidents/{quote(trace_id, safe='')}"
