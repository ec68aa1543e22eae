"""Values that contradict each other are refused with a sentence that says what to set."""

from typing import Any

import pytest
from helm_python import HelmRenderError

from support import charts

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "external without a Secret": (
        {"database": {"mode": "external"}},
        "database.external.existingSecret must name the Secret",
    ),
    "a name of the selector alone": (
        {**charts.EXTERNAL, "nameOverride": "my.Formulary"},
        "would begin with formulary-my.Formulary, which no Service may be named; set fullnameOverride",
    ),
    "external without an address for server and operator": (
        {"database": {"external": {"existingSecret": "formulary-database"}}},
        r"must name two keys of the Secret formulary-database, neither of them the owner's \(uri\): add the addresses "
        "postgresql://formulary_server:PASSWORD@host:5432/database and postgresql://formulary_writer:PASSWORD",
    ),
    "the owner's address for the server": (
        {"database": {"external": {"existingSecret": "s", "key": "o", "serverKey": "o", "operatorKey": "w"}}},
        r"neither of them the owner's \(o\)",
    ),
    "a Secret for another mode": (
        {"database": {"mode": "cnpg", "external": {"existingSecret": "s"}}},
        "set database.mode to external",
    ),
    "an authority for another mode": (
        {"database": {"mode": "cnpg", "external": {"caSecret": "s"}}},
        "database.external.caSecret is set, but database.mode is cnpg",
    ),
    "a variable that follows from a value": (
        {**charts.EXTERNAL, "server": {"extraEnv": [{"name": "FORMULARY_POOL_SIZE", "value": "5"}]}},
        "server.extraEnv names FORMULARY_POOL_SIZE, which the chart sets; use server.poolSize instead",
    ),
    "a variable that is always the same": (
        {**charts.EXTERNAL, "operator": {"extraEnv": [{"name": "FORMULARY_HEALTH_PORT", "value": "5"}]}},
        "operator.extraEnv names FORMULARY_HEALTH_PORT, which the chart sets; leave it out",
    ),
    "as many calls as connections": (
        {**charts.EXTERNAL, "server": {"extraEnv": [{"name": "FORMULARY_CALLS_AT_ONCE", "value": "10"}]}},
        "FORMULARY_CALLS_AT_ONCE to 10, but server.poolSize is 10 and must be greater",
    ),
    "both monitors": (
        {**charts.EXTERNAL, "monitoring": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}},
        "enable one",
    ),
    "namespace scope without namespaces": (
        {**charts.EXTERNAL, "rbac": {"scope": "namespace"}},
        "catalog.watchNamespaces must list the namespaces",
    ),
    "the shared namespace is not watched": (
        {**charts.EXTERNAL, "catalog": {"watchNamespaces": ["payments"]}},
        "leaves out formulary, the shared namespace",
    ),
    "runs in the release's namespace": (
        {**charts.EXTERNAL, "execution": {"mode": "auto", "namespaces": ["formulary"]}},
        "nothing may be run in formulary",
    ),
    "runs in a namespace of Kubernetes": (
        {**charts.EXTERNAL, "execution": {"mode": "auto", "runsNamespace": "kube-system"}},
        "nothing may be run in kube-system",
    ),
    "runs where nobody watches": (
        {
            **charts.EXTERNAL,
            "catalog": {"watchNamespaces": ["formulary"]},
            "execution": {"mode": "auto", "namespaces": ["payments"]},
        },
        "execution.namespaces lists payments, which catalog.watchNamespaces leaves out",
    ),
    "production as harmless": (
        {**charts.EXTERNAL, "execution": {"mode": "auto", "harmlessEnvironments": ["dev", "Production"]}},
        "execution.harmlessEnvironments lists Production",
    ),
    "some namespaces and all of them": (
        {**charts.EXTERNAL, "execution": {"mode": "auto", "namespaces": ["payments"], "clusterWide": True}},
        "set one of the two",
    ),
    "all namespaces with roles in some": (
        {
            **charts.EXTERNAL,
            "catalog": {"watchNamespaces": ["formulary"]},
            "rbac": {"scope": "namespace"},
            "execution": {"mode": "auto", "clusterWide": True},
        },
        "list execution.namespaces instead",
    ),
    "a label by which pods are found": (
        {"commonLabels": {"app.kubernetes.io/name": "x"}},
        "commonLabels names app.kubernetes.io/name, which the chart sets and by which pods are found",
    ),
    "a label by which the pods of the server are found": (
        {"server": {"podLabels": {"app.kubernetes.io/component": "x"}}},
        "server.podLabels names app.kubernetes.io/component, by which its pods are found",
    ),
    "namespaces of runs where nothing is run": (
        {**charts.EXTERNAL, "execution": {"namespaces": ["payments"]}},
        "execution.mode is off, the default; set execution.mode to auto, as it was in earlier releases, or to approve",
    ),
    "an embedded database for several pods": (
        {"server": {"autoscaling": {"enabled": True}}},
        "the embedded database runs one pod, which server.autoscaling cannot scale",
    ),
    "a certificate that is not used": (
        {**charts.EXTERNAL, "server": {"tls": {"existingSecret": "s"}}},
        "server.tls.enabled is false",
    ),
    "two certificates": (
        {**charts.EXTERNAL, "server": {"tls": {"enabled": True, "existingSecret": "s", "dnsNames": ["a.example"]}}},
        "no Certificate is made",
    ),
    "one pod that scales": (
        {**charts.EXTERNAL, "allInOne": True, "server": {"autoscaling": {"enabled": True}}},
        "disable one of the two",
    ),
    "one pod with several operators": (
        {**charts.EXTERNAL, "allInOne": True, "operator": {"replicas": 2}},
        "operator.replicas must be 1",
    ),
    "fewer at most than at least": (
        {**charts.EXTERNAL, "server": {"autoscaling": {"enabled": True, "minReplicas": 9}}},
        "minReplicas is greater than maxReplicas",
    ),
    "no authentication and an open network": (
        {**charts.EXTERNAL, "authentication": {"mode": "none"}},
        "limit that with networkPolicy.server.from",
    ),
    "no authentication and no policies": (
        {
            **charts.EXTERNAL,
            "authentication": {"mode": "none"},
            "networkPolicy": {"enabled": False, "server": {"from": [{"podSelector": {}}]}},
        },
        "leave networkPolicy.enabled on",
    ),
    "a token that nobody checks": (
        {
            **charts.EXTERNAL,
            "authentication": {"mode": "none"},
            "networkPolicy": {"server": {"from": [{"podSelector": {}}]}},
            "kagent": {"enabled": True, "tokenSecret": "s"},
        },
        "kagent.tokenSecret is set, but authentication.mode is none",
    ),
    "runs in anybody's name": (
        {
            **charts.EXTERNAL,
            "authentication": {"mode": "none"},
            "networkPolicy": {"server": {"from": [{"podSelector": {}}]}},
        },
        "set execution.mode to off, or authentication.mode to kubernetes",
    ),
    "an issuer of nothing": (
        {**charts.EXTERNAL, "webhook": {"enabled": True, "issuerRef": {"name": "ca"}}},
        "webhook.certificates cert-manager",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_contradiction_is_refused_with_the_way_out(case: str) -> None:
    values, sentence = REFUSED[case]

    with pytest.raises(HelmRenderError, match=sentence):
        charts.render(values)


@pytest.mark.parametrize("name", charts.ci_values())
def test_no_variable_of_the_chart_can_be_set_twice(name: str) -> None:
    values = charts.ci_values()[name]
    for component in ("server", "operator"):
        more = {variable["name"] for variable in values.get(component, {}).get("extraEnv", [])}
        for variable in _variables(values, component) - more:
            twice = {**values, component: {**values.get(component, {}), "extraEnv": [{"name": variable, "value": "x"}]}}

            with pytest.raises(HelmRenderError, match=f"{component}.extraEnv names {variable}, "):
                charts.render(twice)


def _variables(values: dict[str, Any], component: str) -> set[str]:
    """The variables of the container of this name."""
    containers = [c for _, spec in charts.pods(charts.render(values)) for c in spec["containers"]]
    return {variable["name"] for c in containers if c["name"] == component for variable in c["env"]}
