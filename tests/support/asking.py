"""Questions to a running server over REST."""

from collections.abc import Mapping
from typing import Any

import httpx2

_SECONDS = 10


def search(
    url: str, query: str, *, headers: Mapping[str, str] | None = None, top_k: int = 50, **labels: str
) -> dict[str, Any]:
    """The answer to a search. Raises `httpx2.HTTPStatusError` if it is refused."""
    body = {"query": query, "top_k": top_k, "filters": labels}
    response = httpx2.post(f"{url}/api/v1/workflows/search", json=body, headers=headers, timeout=_SECONDS)
    answer: dict[str, Any] = response.raise_for_status().json()
    return answer


def finds(url: str, name: str, *, headers: Mapping[str, str] | None = None) -> str:
    """The version id of a workflow of this name that a search for the name finds; empty if it does not."""
    hits = search(url, name.replace("-", " "), headers=headers)["workflows"]
    return next((hit["version_id"] for hit in hits if hit["workflow_id"].rpartition("/")[2] == name), "")


def details(url: str, workflow_id: str) -> dict[str, Any] | None:
    """All about one workflow; None if there is none of this id."""
    response = httpx2.get(f"{url}/api/v1/workflows/{workflow_id}", timeout=_SECONDS)
    if response.status_code == 404:
        return None
    found: dict[str, Any] = response.raise_for_status().json()
    return found
