"""Which namespaces a call can see, whatever the rights of its caller are (DESIGN section 9)."""

import asyncio
from collections.abc import Awaitable

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.access import Caller, Right
from formulary_catalog.domain.analysis import RequestContext
from formulary_catalog.domain.request import ContextReference
from formulary_catalog.errors import NotAllowed
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.contexts import ContextResolver
from formulary_catalog.search.scope import Scope, Scoping
from formulary_catalog.search.trail import Record
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.contexts import ContextReader
from support.access import EVERYWHERE, Rights

SHARED = "formulary"
NAMESPACES = st.sampled_from([SHARED, "shop", "bank", "shop-apps", "kube-system"])
SOME = st.frozensets(NAMESPACES | st.just(EVERYWHERE))
INCIDENT = st.builds(
    RequestContext,
    namespace=NAMESPACES,
    name=st.just("oom"),
    remediation_id=st.just("rr-1"),
    target_namespace=NAMESPACES | st.just(""),
)
REFERENCES = st.sampled_from(["remediation id", "AIAnalysis", "both"])


class Stored(ContextReader):
    """The one incident that there is, or none."""

    def __init__(self, incident: RequestContext | None) -> None:
        self._incident = incident

    async def find(self, *, remediation_ids: frozenset[str], analysis: str) -> list[RequestContext]:
        return [self._incident] if self._incident is not None else []


def scoping(incident: RequestContext | None) -> Scoping:
    resolver = ContextResolver(
        reader=Stored(incident), policy=ContextPolicy.OPTIONAL, wait_seconds=0, metrics=Metrics()
    )
    return Scoping(contexts=resolver, shared_namespace=SHARED)


def outcome(asked: Awaitable[Scope]) -> Scope | NotAllowed:
    async def run() -> Scope | NotAllowed:
        try:
            return await asked
        except NotAllowed as error:
            return error

    return asyncio.run(run())


@given(st.none() | INCIDENT, SOME, SOME, REFERENCES)
def test_a_call_sees_at_most_its_own_namespaces_and_only_where_it_may_list(
    incident: RequestContext | None, see: frozenset[str], use: frozenset[str], by: str
) -> None:
    caller = Caller(name="agent", access=Rights(see=see, use=use))
    reference = ContextReference()
    if incident is not None:
        reference = ContextReference(
            remediation_id="rr-1" if by != "AIAnalysis" else "",
            analysis=f"{incident.namespace}/oom" if by != "remediation id" else "",
        )
    scope = outcome(scoping(incident).of(reference, caller=caller, record=Record()))

    own = {SHARED} | ({incident.namespace, incident.target_namespace} - {""} if incident is not None else set())
    may_use = incident is None or EVERYWHERE in use or incident.namespace in use
    if not may_use or (EVERYWHERE not in see and not own & see):
        assert isinstance(scope, NotAllowed)
    else:
        assert isinstance(scope, Scope)
        assert scope.namespaces == (None if EVERYWHERE in see else frozenset(own & see))


@given(INCIDENT, SOME)
def test_a_refused_incident_tells_its_namespace_and_nothing_else(incident: RequestContext, see: frozenset[str]) -> None:
    caller = Caller(name="agent", access=Rights(see=see))
    refused = outcome(scoping(incident).of(ContextReference(remediation_id="rr-1"), caller=caller, record=Record()))

    assert str(refused) == (
        f"agent may not get aianalyses.kubernaut.ai in namespace {incident.namespace}, which this call needs; ask "
        "whoever administers the namespace for a RoleBinding that allows it; retrying unchanged will fail again"
    )


@given(SOME, st.booleans())
def test_a_namespace_that_may_not_be_used_hides_what_exists_in_it(see: frozenset[str], exists: bool) -> None:
    incident = RequestContext(namespace="bank", name="oom", remediation_id="rr-1") if exists else None
    caller = Caller(name="agent", access=Rights(see=see, use={"shop"}))
    refused = outcome(scoping(incident).of(ContextReference(analysis="bank/oom"), caller=caller, record=Record()))

    assert "may not get aianalyses.kubernaut.ai in namespace bank" in str(refused)


def test_an_incident_without_a_target_asks_for_no_namespace_of_that_name() -> None:
    asked: list[str | None] = []

    class Watched(Rights):
        async def allows(self, right: Right, *, namespace: str | None) -> bool:
            asked.append(namespace)
            return await super().allows(right, namespace=namespace)

    incident = RequestContext(namespace="shop", name="oom", remediation_id="rr-1")
    caller = Caller(name="agent", access=Watched(see={"shop"}, use={"shop"}))
    outcome(scoping(incident).of(ContextReference(remediation_id="rr-1"), caller=caller, record=Record()))
    assert asked == ["shop", None, SHARED, "shop"]
