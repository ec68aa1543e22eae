"""Which namespaces a call can see, whatever the rights of its caller are (DESIGN section 9)."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.access import Caller, Right
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import ContextError, NotAllowed
from formulary_catalog.kernel.incidents import ContextResolver
from formulary_catalog.kernel.readable import ReadableNamespaces
from formulary_catalog.kernel.trail import Record
from formulary_catalog.kernel.visibility import CallScope, Visibility
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.alerts import AlertReader
from formulary_catalog.store.incidents import ContextReader
from support.access import EVERYWHERE, Rights
from support.targets import NO_TARGETS

SHARED = "formulary"
ALL = [SHARED, "shop", "bank", "shop-apps", "kube-system"]
NAMESPACES = st.sampled_from(ALL)
SOME = st.frozensets(NAMESPACES | st.just(EVERYWHERE))
ID = st.sampled_from(["rr-1", "rr-2"])
INCIDENT = st.builds(
    RequestContext,
    namespace=NAMESPACES,
    name=st.sampled_from(["oom", "evicted"]),
    remediation_id=ID,
    environment=st.sampled_from(["", "production"]),
    target_namespace=st.sampled_from(["", "shop", "shop-apps"]),
)
INCIDENTS = st.lists(INCIDENT, max_size=3, unique_by=lambda incident: (incident.namespace, incident.name))
REFERENCES = st.builds(
    ContextReference,
    remediation_id=st.just("") | ID,
    analysis=st.just("") | st.builds("{}/{}".format, NAMESPACES, st.sampled_from(["oom", "evicted"])),
)


Seen = frozenset[str] | type[NotAllowed] | type[ContextError] | None
"""The namespaces that a call sees, None for all, or how it fails."""


class Stored(ContextReader):
    """The incidents that there are."""

    def __init__(self, incidents: list[RequestContext]) -> None:
        self._incidents = incidents

    async def find(self, *, remediation_ids: frozenset[str], analysis: str) -> list[RequestContext]:
        return [
            incident
            for incident in self._incidents
            if incident.remediation_id in remediation_ids or path(incident) == analysis
        ]


class NoAlerts(AlertReader):
    """Nothing was reported by a source."""

    def __init__(self) -> None:
        pass

    async def find(self, remediation_ids: frozenset[str]) -> list[RequestContext]:
        return []


class Nowhere(ReadableNamespaces):
    """Namespaces of people who look through the catalog, which agents never do."""

    def __init__(self) -> None:
        pass

    async def of(self, caller: Caller, right: Right, *, namespace: str = "") -> frozenset[str] | None:
        raise AssertionError("an agent sees what its call concerns")


class Everywhere(ReadableNamespaces):
    """All namespaces have workflows."""

    def __init__(self) -> None:
        pass

    async def of(self, caller: Caller, right: Right, *, namespace: str = "") -> frozenset[str] | None:
        if await caller.access.allows(right, namespace=None):
            return None
        return frozenset([name for name in ALL if await caller.access.allows(right, namespace=name)])


def path(incident: RequestContext) -> str:
    return f"{incident.namespace}/{incident.name}"


def scoping(
    *incidents: RequestContext,
    policy: ContextPolicy = ContextPolicy.OPTIONAL,
    readable: ReadableNamespaces | None = None,
) -> Visibility:
    resolver = ContextResolver(
        reader=Stored(list(incidents)),
        alerts=NoAlerts(),
        targets=NO_TARGETS,
        policy=policy,
        wait_seconds=0,
        metrics=Metrics(),
    )
    return Visibility(contexts=resolver, shared_namespace=SHARED, readable=readable or Nowhere())


def outcome(asked: Awaitable[CallScope]) -> CallScope | NotAllowed | ContextError:
    async def run() -> CallScope | NotAllowed | ContextError:
        try:
            return await asked
        except (NotAllowed, ContextError) as error:
            return error

    return asyncio.run(run())


def seen(scope: CallScope | NotAllowed | ContextError) -> Seen:
    return scope.namespaces if isinstance(scope, CallScope) else type(scope)


def expected(
    incidents: list[RequestContext], reference: ContextReference, *, see: frozenset[str], use: frozenset[str]
) -> Seen:

    def may_use(namespace: str) -> bool:
        return EVERYWHERE in use or namespace in use

    with_id = [incident for incident in incidents if incident.remediation_id == reference.remediation_id]
    at_path = [incident for incident in incidents if path(incident) == reference.analysis]
    if reference.analysis and not may_use(reference.analysis.partition("/")[0]):
        return NotAllowed
    if not reference.analysis and not all(may_use(incident.namespace) for incident in with_id):
        return ContextError
    if (reference.remediation_id and not with_id) or (reference.analysis and not at_path):
        return ContextError
    meant = with_id if not reference.analysis else at_path
    meant = [incident for incident in meant if not reference.remediation_id or incident in with_id]
    ways = {(incident.namespace, incident.target_namespace, incident.environment) for incident in meant}
    if (reference and not meant) or len(ways) > 1:
        return ContextError
    own = {SHARED}.union(*({incident.namespace, incident.target_namespace} for incident in meant)) - {""}
    if EVERYWHERE in see:
        return None
    return frozenset(own & see) or NotAllowed


@given(INCIDENTS, REFERENCES, SOME, SOME)
def test_a_call_sees_the_namespaces_of_its_one_incident_where_it_may_list_or_it_fails(
    incidents: list[RequestContext], reference: ContextReference, see: frozenset[str], use: frozenset[str]
) -> None:
    caller = Caller(name="agent", access=Rights(see=see, use=use))
    scope = outcome(scoping(*incidents).of(reference, caller=caller, record=Record()))

    assert seen(scope) == expected(incidents, reference, see=see, use=use)


@given(INCIDENTS, REFERENCES, SOME, SOME)
def test_an_application_that_needs_no_incident_sees_what_an_agent_sees(
    incidents: list[RequestContext], reference: ContextReference, see: frozenset[str], use: frozenset[str]
) -> None:
    caller = Caller(name="agent", access=Rights(see=see, use=use))
    visibility = scoping(*incidents, policy=ContextPolicy.REQUIRED)
    scope = outcome(visibility.of(replace(reference, optional=True), caller=caller, record=Record()))

    assert seen(scope) == expected(incidents, reference, see=see, use=use)


@given(INCIDENTS, REFERENCES, SOME, SOME)
def test_a_person_who_browses_sees_each_namespace_of_its_rights_but_no_more_than_an_agent_under_an_incident(
    incidents: list[RequestContext], reference: ContextReference, see: frozenset[str], use: frozenset[str]
) -> None:
    caller = Caller(name="person", access=Rights(see=see, use=use))
    visibility = scoping(*incidents, policy=ContextPolicy.REQUIRED, readable=Everywhere())
    scope = outcome(visibility.of(reference, caller=caller, record=Record(), browsing=True))

    of_its_rights = None if EVERYWHERE in see else see or NotAllowed
    assert seen(scope) == (expected(incidents, reference, see=see, use=use) if reference else of_its_rights)


@given(SOME)
def test_an_agent_without_an_incident_is_refused_where_one_is_required(see: frozenset[str]) -> None:
    caller = Caller(name="agent", access=Rights(see=see))
    asked = scoping(policy=ContextPolicy.REQUIRED).of(ContextReference(), caller=caller, record=Record())

    assert seen(outcome(asked)) is ContextError


@given(INCIDENT, SOME)
def test_an_id_that_may_not_be_used_is_answered_as_one_that_nobody_has(
    incident: RequestContext, see: frozenset[str]
) -> None:
    caller = Caller(name="agent", access=Rights(see=see, use={*ALL, "elsewhere"} - {incident.namespace}))
    for reference in (
        ContextReference(remediation_id=incident.remediation_id),
        ContextReference(remediation_id=incident.remediation_id, analysis="elsewhere/oom"),
    ):
        there, nowhere = (
            outcome(scoping(*incidents).of(reference, caller=caller, record=Record())) for incidents in ([incident], [])
        )
        assert (type(there), str(there)) == (type(nowhere), str(nowhere))
        assert isinstance(there, ContextError | NotAllowed)


@given(SOME, st.booleans())
def test_a_namespace_that_may_not_be_used_hides_what_exists_in_it(see: frozenset[str], exists: bool) -> None:
    incidents = [RequestContext(namespace="bank", name="oom", remediation_id="rr-1")] if exists else []
    caller = Caller(name="agent", access=Rights(see=see, use={"shop"}))
    refused = outcome(scoping(*incidents).of(ContextReference(analysis="bank/oom"), caller=caller, record=Record()))

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
