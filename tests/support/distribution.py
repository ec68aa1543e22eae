"""How the tests of a run are shared by its processes: what uses the same server stays together.

pytest-xdist's own groups by mark do nothing under pytest 9.2, which keeps ids of tests in another place.
"""

from xdist.scheduler import LoadScopeScheduling

_TOGETHER = {
    "tests/cluster/": "API server",
    "tests/security/": "API server",
    "tests/clients/test_holmes_in_cluster.py": "API server",
    "tests/clients/": "clients",
    "tests/console/": "browser",
    "tests/packaging/": "packages",
    "tests/lab/": "node",
}
"""Groups by the beginning of a path, the first that fits; anything else is a group by its module."""


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Gives each group to one process, so that a server that several modules share is started once."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """The group of a test."""
    path = nodeid.partition("::")[0]
    return next((group for beginning, group in _TOGETHER.items() if path.startswith(beginning)), path)
