"""Addresses of the console's pages: below a server's own root, and whole ones as links from elsewhere.

Pages and templates of the console use the addresses. The command line, notes and Events of runs use the links, which
begin with FORMULARY_CONSOLE_URL: a server does not know by which address people reach it.
"""

from urllib.parse import quote

CONSOLE_PATH = "/console"
FAVICON_PATH = "/favicon.ico"
"""Browsers ask for it by themselves, without credentials, whatever icon a page names."""
DOCUMENTATION = "https://formulary.dev"
"""The documentation site, which `make docs` builds; paths are those of the repository."""
COVERAGE = f"{CONSOLE_PATH}/coverage"
"""The page that compares alerts with remedies."""


def workflow_address(workflow_id: str) -> str:
    """The page of a workflow, by any form of its id: `name`, `namespace/name`, `name@version` or a version id."""
    return f"{CONSOLE_PATH}/catalog/{quote(workflow_id, safe='/@')}"


def incident_address(trace_id: str) -> str:
    """The page of a trace."""
    return f"{CONSOLE_PATH}/incidents/{quote(trace_id, safe='')}"


def waiting_address(invocation_id: str) -> str:
    """The page on which a person decides on a run that waits."""
    return f"{CONSOLE_PATH}/waiting/{quote(invocation_id, safe='')}"


def workflow_link(console_url: str, workflow_id: str) -> str:
    """A link to the page of a workflow; empty where the console's address is not known."""
    return console_url and f"{console_url}{workflow_address(workflow_id)}"


def search_link(console_url: str, search_id: str) -> str:
    """A link to the page of a recorded search; empty where the console's address is not known."""
    return console_url and f"{console_url}{CONSOLE_PATH}/search?search_id={quote(search_id, safe='')}"


def coverage_link(console_url: str) -> str:
    """A link to the page that compares alerts with remedies; empty where the console's address is not known."""
    return console_url and f"{console_url}{COVERAGE}"


def incident_link(console_url: str, trace_id: str) -> str:
    """A link to the page of a trace; empty where the console's address is not known."""
    return console_url and f"{console_url}{incident_address(trace_id)}"


def waiting_link(console_url: str, invocation_id: str) -> str:
    """A link to where a person decides on a run that waits; empty where the console's address is not known."""
    return console_url and f"{console_url}{waiting_address(invocation_id)}"
