"""One node and one installed release for all tests of the lab: both take a minute to come."""

from collections.abc import Iterator

import pytest

from lab.fault import Fault, read_faults
from lab.node.node import Node, start_node
from lab.node.programs import NoNode, find_programs
from lab.product import Product, install_product
from support.teams import TEAMS

_EVERY = 3
"""Of all faults, every third is tried here."""


@pytest.fixture(scope="session")
def programs() -> None:
    """Skips where this machine cannot run a node."""
    try:
        find_programs()
    except NoNode as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def node(programs: None) -> Iterator[Node]:
    """A running node."""
    with start_node() as running:
        yield running


@pytest.fixture(scope="session")
def faults() -> list[Fault]:
    """The faults that are tried."""
    return [fault for fault in read_faults()[::_EVERY] if fault.scope == "namespace"]


@pytest.fixture(scope="session")
def product(node: Node, faults: list[Fault]) -> Iterator[Product]:
    """The chart on the node, for runs in the namespaces of the faults and of the tests."""
    namespaces = [*TEAMS, *(fault.namespace for fault in faults)]
    with install_product(node, namespaces=namespaces) as installed:
        yield installed
