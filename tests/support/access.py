"""Rights that are given by hand, where a cluster would ask its API server."""

from collections.abc import Iterable, Sequence

from formulary_catalog.domain.access import (
    ANALYSE,
    APPROVE,
    HALT,
    INVOKE,
    LIFT,
    LIST_RULES,
    READ_CONSTRAINTS,
    READ_CONTRACTS,
    READ_INVOCATIONS,
    SEE_WORKFLOWS,
    USE_CONTEXTS,
    Caller,
    Right,
)
from formulary_catalog.domain.targets.reference import KINDS
from formulary_catalog.errors import NotAuthenticated, Unavailable

EVERYWHERE = "*"


class Rights:
    """An `Access`: the namespaces in which each right is given; `*` stands for all of them."""

    def __init__(
        self,
        *,
        see: Iterable[str] = (),
        use: Iterable[str] = (),
        constraints: Iterable[str] = (),
        invoke: Iterable[str] = (),
        approve: Iterable[str] = (),
        read: Iterable[str] = (),
        contracts: Iterable[str] = (),
        analyse: Iterable[str] = (),
        halt: Iterable[str] = (),
        lift: Iterable[str] = (),
        rules: Iterable[str] = (),
        targets: Iterable[str] = (),
    ) -> None:
        given = {
            SEE_WORKFLOWS: see,
            USE_CONTEXTS: use,
            READ_CONSTRAINTS: constraints,
            INVOKE: invoke,
            APPROVE: approve,
            READ_INVOCATIONS: read,
            READ_CONTRACTS: contracts,
            ANALYSE: analyse,
            HALT: halt,
            LIFT: lift,
            LIST_RULES: rules,
            **{each.get: targets for each in KINDS},
        }
        self._namespaces = {right: frozenset(namespaces) for right, namespaces in given.items()}

    async def allows(self, right: Right, *, namespace: str | None) -> bool:
        return EVERYWHERE in self._namespaces[right] or namespace in self._namespaces[right]


class NotAnswered(Rights):
    """Rights that nobody can check now."""

    async def allows(self, right: Right, *, namespace: str | None) -> bool:
        raise Unavailable("the rights of callers cannot be checked now; retry in a few seconds")


class KnownCallers:
    """An `Authenticator` that knows its callers by the whole `Authorization` header."""

    def __init__(self, **callers: Rights) -> None:
        self._callers = callers

    async def authenticate(self, authorization: Sequence[str], *, address: str) -> Caller:
        name = "".join(authorization).removeprefix("Bearer ")
        if name not in self._callers:
            raise NotAuthenticated("the call has no token that is known here; send one")
        return Caller(name=name, access=self._callers[name])

    async def vouched_for(self, user: str, groups: Sequence[str]) -> Caller:
        if user not in self._callers:
            raise NotAuthenticated("the proxy names a user that is not known here")
        return Caller(name=user, access=self._callers[user])

    async def check(self) -> None:
        return
