"""The live arm of FormularyBench: one executor, and the cluster says what came of a remedy."""

import pytest

from agents.healing import COMPLETED, NOTHING, Offered, try_all
from lab.node.node import Node

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def _offered(arm: str, remedy: str, *, right: bool = False, forbidden: bool = False) -> Offered:
    return Offered(
        fault="quota-pods",
        curable=True,
        demand="restarts",
        arm=arm,
        remedy=remedy,
        right=right,
        forbidden=forbidden,
    )


def test_the_cluster_says_which_first_offer_heals_and_each_is_run_once(node: Node) -> None:
    offered = [
        _offered("B", "workload-undo-last-change", forbidden=True),
        _offered("C", "quota-exceeded-raise", right=True),
        _offered("D", "quota-exceeded-raise", right=True),
        _offered("E", ""),
    ]
    said: list[str] = []

    wrong, right, again, nothing = try_all(offered, node=node, say=said.append)

    assert (right.run, right.healed, right.harmed) == (COMPLETED, True, False), said
    assert (again.run, again.healed, again.harmed) == (COMPLETED, True, False)
    assert not wrong.healed, said
    assert (nothing.run, nothing.healed, nothing.harmed) == (NOTHING, False, False)
    assert len(said) == 2  # what two arms offer is run once
