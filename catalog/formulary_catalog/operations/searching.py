"""From checked arguments to the search that they ask for: the same for the tool, REST and the console.

They call it after `arguments.catalog` has checked the call, and give its result to `services.search.service` or, for an
explanation, to `services.search.explanation`. Fields that one edge alone takes, such as a vector, are parameters.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from formulary_catalog.domain.search.request import ContextReference, SearchRequest, search_request
from formulary_catalog.operations.arguments.catalog import SearchArguments
from formulary_catalog.operations.arguments.target import with_target

if TYPE_CHECKING:
    from formulary_catalog.operations.arguments.reading import ExplainArguments


def search_request_of(
    arguments: "SearchArguments | ExplainArguments",
    *,
    context: ContextReference,
    max_bytes: int | None = None,
    embedding: tuple[float, ...] | None = None,
    custom_labels: Mapping[str, tuple[str, ...]] | None = None,
    detected_labels: Mapping[str, str] | None = None,
) -> SearchRequest:
    """The search that checked arguments ask for.

    Raises:
        InvalidInput: a bound of DESIGN section 7 is broken.
    """
    return search_request(
        query=arguments.query,
        labels=arguments.labels,
        exclude_keywords=arguments.exclude_keywords,
        action_type=arguments.action_type,
        namespace=arguments.namespace,
        keywords=arguments.keywords,
        min_confidence=arguments.min_confidence,
        top_k=arguments.top_k,
        max_bytes=max_bytes,
        embedding=embedding,
        custom_labels=custom_labels,
        detected_labels=detected_labels,
        context=with_target(context, arguments),
    )
