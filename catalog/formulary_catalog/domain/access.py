"""What a caller may do, asked where it matters (DESIGN section 9). Who decides is known at the edge alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from formulary_catalog.errors import NotAllowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Something that a caller may or may not do in a namespace, in the words of the Kubernetes API.

    `resource` is as a Role names it: a part of one follows a slash.
    """

    verb: str
    resource: str
    group: str

    def __str__(self) -> str:
        return f"{self.verb} {'.'.join(filter(None, (self.resource, self.group)))}"


SEE_WORKFLOWS = Right(verb="list", resource="remediationworkflows", group="kubernaut.ai")
"""The workflows of the namespace are visible."""
USE_CONTEXTS = Right(verb="get", resource="aianalyses", group="kubernaut.ai")
"""Calls may be made on behalf of the incidents of the namespace."""
READ_CONSTRAINTS = Right(verb="get", resource="aianalyses/constraints", group="kubernaut.ai")
"""What incidents of the namespace demand may be read: their custom labels, and which workflows are suspended. People
have it; an agent is not to know what its incident demands."""
INVOKE = Right(verb="create", resource="workflowinvocations", group="formulary.dev")
"""Workflows may be run in the namespace."""
APPROVE = Right(verb="create", resource="invocationapprovals", group="formulary.dev")
"""Runs of the namespace that wait for somebody may be approved and rejected."""
READ_INVOCATIONS = Right(verb="get", resource="workflowinvocations", group="formulary.dev")
"""All runs of the namespace may be read, those of other requesters too."""
READ_CONTRACTS = Right(verb="get", resource="governancecontracts", group="formulary.dev")
"""Contracts of the namespace may be read."""
HALT = Right(verb="create", resource="governancecontracts", group="formulary.dev")
"""Runs of the namespace may be halted, as a contract of it could; in the shared namespace, all runs."""
LIFT = Right(verb="delete", resource="governancecontracts", group="formulary.dev")
"""What was halted so may be lifted."""
LIST_RULES = Right(verb="list", resource="prometheusrules", group="monitoring.coreos.com")
"""The alerts of the PrometheusRule objects of the namespace may be read."""
ANALYSE = Right(verb="get", resource="analytics", group="formulary.dev")
"""SELECT statements of the caller's own may be run over what its other rights show."""


class Access(Protocol):
    """The rights of one caller."""

    async def allows(self, right: Right, *, namespace: str | None) -> bool:
        """Whether the caller has the right in a namespace; None asks for all namespaces at once.

        Raises:
            Unavailable: it cannot be decided now, so nothing may be assumed.
        """


class _Everything:
    async def allows(self, right: Right, *, namespace: str | None) -> bool:
        return True


EVERYTHING: Access = _Everything()
"""The rights of everybody where nobody is asked for credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, and what it may do.

    `may_set_context`: also say itself which custom labels constrain a search.
    """

    name: str
    access: Access
    may_set_context: bool = False

    async def require(self, right: Right, *, namespace: str | None) -> None:
        """Check one right; in all namespaces where the namespace is None.

        Raises:
            NotAllowed: the caller does not have it.
            Unavailable: it cannot be decided now.
        """
        if await self.access.allows(right, namespace=namespace):
            return
        if namespace is None:
            raise NotAllowed(
                f"{self.name} may not {right} in all namespaces, which this call needs; ask an administrator "
                "of the cluster for a ClusterRoleBinding that allows it"
            )
        raise NotAllowed(
            f"{self.name} may not {right} in namespace {namespace}, which this call needs; ask an "
            "administrator of the namespace for a RoleBinding that allows it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcClient:
    """Whose ID tokens are taken beside those for our own audience: of this issuer, for this client (its `aud`)."""

    issuer: str
    client_id: str


class Authenticator(Protocol):
    """Says who a call comes from."""

    async def authenticate(self, authorization: Sequence[str], *, address: str) -> Caller:
        """The caller, by the values of its `Authorization` headers; usually there is one, or none.

        `address` is where the call comes from; it proves nothing.

        Raises:
            NotAuthenticated: they prove nothing.
            Unavailable: it cannot be decided now.
        """

    async def vouched_for(self, user: str, groups: Sequence[str]) -> Caller:
        """The caller that a proxy has identified. The proxy has proved itself already.

        Raises:
            NotAuthenticated: no proxy may vouch for a user or group of this name.
        """

    async def check(self) -> None:
        """Find out whether callers can be identified at all.

        Raises:
            Unavailable: not now.
        """
