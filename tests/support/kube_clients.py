"""Our client of the Kubernetes API, for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from formulary_operator.kube.client import KubeClient


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[KubeClient]:
    """A client with the identity of a kubeconfig."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KUBECONFIG", str(kubeconfig))
        client = KubeClient.connect()
    try:
        yield client
    finally:
        await client.close()
