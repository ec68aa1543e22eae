"""Addresses of the console below FORMULARY_CONSOLE_URL: the command line, notes and Events of runs link to them.

A server does not know by which address people reach it, so without the setting nothing is linked.
"""

from urllib.parse import quote

_CONSOLE = "/console"


def incident_address(console_url: str, trace_id: str) -> str:
    """The page of a trace; empty where the console's address is not known."""
    return f"{console_url}{_CONSOLE}/incidents/{quote(trace_id, safe='')}" if console_url else ""


def waiting_address(console_url: str) -> str:
    """The page of the runs that wait for a person; empty where the console's address is not known."""
    return f"{console_url}{_CONSOLE}/waiting" if console_url else ""
