"""How the tests of a run are shared by its processes."""

import pytest

from support.distribution import group_of


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/cluster/test_lease.py::test_one_leads", "API server"),
        ("tests/security/test_floods.py::test_a[1::2]", "API server"),
        ("tests/clients/test_holmes_in_cluster.py::test_it", "API server"),
        ("tests/clients/test_holmesgpt.py::test_it", "clients"),
        ("tests/lab/test_lab_node.py::test_it", "node"),
        ("tests/unit/test_log.py::test_it", "tests/unit/test_log.py"),
    ],
)
def test_what_shares_a_server_is_one_group_and_other_modules_are_their_own(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group
