"""What a caller may do: SubjectAccessReview, so that RBAC decides (DESIGN section 9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from formulary_catalog.domain.access import Right
from formulary_operator.access.identity import Identity
from formulary_operator.access.reviews import Clock, Decision, ReviewCache, Reviewer

PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Authorizer:
    """Asks the API server, and remembers its answers for a while."""

    def __init__(self, reviewer: Reviewer, *, clock: Clock) -> None:
        self._reviewer = reviewer
        self._decisions: ReviewCache[bool] = ReviewCache(clock=clock)

    async def close(self) -> None:
        """Ask no more."""
        await self._decisions.close()

    async def allows(self, identity: Identity, right: Right, *, namespace: str | None) -> bool:
        """Whether RBAC gives the user the right in the namespace; None asks for all namespaces at once.

        Raises:
            Unavailable: the API server does not say.
        """
        if namespace == "":
            return False  # to the API server, an empty namespace means all of them

        async def ask() -> Decision[bool]:
            allowed = await self._review(identity, right, namespace=namespace)
            # Hardly anybody has a right everywhere, and who has not is asked about in each namespace: that is no news.
            return Decision(value=allowed, lasting=allowed or namespace is None)

        return await self._decisions.decide((identity, right, namespace), ask, asker=identity.user)

    async def _review(self, identity: Identity, right: Right, *, namespace: str | None) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes = {"verb": right.verb, "group": right.group, "resource": resource}
        if subresource:
            attributes["subresource"] = subresource
        if namespace is not None:
            attributes["namespace"] = namespace
        spec: Mapping[str, Any] = {
            "user": identity.user,
            "uid": identity.uid,
            "groups": list(identity.groups),
            "extra": {key: list(values) for key, values in identity.extra},
            "resourceAttributes": attributes,
        }
        status = await self._reviewer.review(
            PATH, api_version="authorization.k8s.io/v1", kind="SubjectAccessReview", spec=spec
        )
        return status.get("allowed") is True and status.get("denied") is not True


@dataclass(frozen=True, slots=True)
class KubernetesAccess:
    """The rights of one user: an `Access` of the catalog."""

    identity: Identity
    authorizer: Authorizer

    async def allows(self, right: Right, *, namespace: str | None) -> bool:
        return await self.authorizer.allows(self.identity, right, namespace=namespace)
