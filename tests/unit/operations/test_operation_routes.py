"""Where operations are found, and what no operation may be."""

from dataclasses import replace

import pytest

from formulary_catalog.operations.coverage import STALE
from formulary_catalog.operations.operation import Route
from formulary_catalog.operations.workflows import IMPACT

WHOLE = Route(path="/documents/{doc_id:path}", id="get", tag="t", summary="s", description="d", in_path={"doc_id": "D"})
PART = replace(WHOLE, path="/traces/{doc_id}")


@pytest.mark.parametrize(
    ("route", "value", "path"),
    [
        (WHOLE, "shop/oom@1.0.0", "/documents/shop/oom@1.0.0"),
        (WHOLE, "workflow://shop/oom", "/documents/workflow%3A%2F%2Fshop%2Foom"),
        (WHOLE, "../traces/b", "/documents/..%2Ftraces%2Fb"),
        (WHOLE, "a/./b", "/documents/a%2F.%2Fb"),
        (WHOLE, "/a", "/documents/%2Fa"),
        (WHOLE, "a?b#c", "/documents/a%3Fb%23c"),
        (PART, "a/b", "/traces/a%2Fb"),
        (WHOLE, "..", "/documents/%2E%2E"),
        (PART, ".", "/traces/%2E"),
    ],
)
def test_an_argument_in_a_path_leads_to_no_other_route(route: Route, value: str, path: str) -> None:
    assert route.address({"doc_id": value, "limit": 2}) == (path, {"limit": 2})


def test_no_model_is_offered_what_looks_at_no_incident() -> None:
    with pytest.raises(ValueError, match="only asks under the constraints"):
        replace(STALE, tool=IMPACT.tool)
