"""What the chart allows whom: exactly this, no rule more."""

import re
from typing import Any

import pytest
import yaml

from formulary_catalog.domain.console_address import DOCUMENTATION
from formulary_catalog.domain.targets.reading import BUDGETS
from formulary_catalog.domain.targets.reference import KINDS
from formulary_operator.admission.review import ASKED
from support import charts

CI = charts.ci_values()
WATCH = ["get", "list", "watch"]
CATALOG = {
    ("kubernaut.ai", "remediationworkflows", (), tuple(WATCH)),
    ("kubernaut.ai", "aianalyses", (), tuple(WATCH)),
    ("kubernaut.ai", "remediationworkflows/status", (), ("patch",)),
    ("formulary.dev", "incidentsources", (), tuple(WATCH)),
    ("formulary.dev", "incidentsources/status", (), ("patch",)),
    ("", "events", (), ("create",)),
}
RUN = ("create", "get", "delete")
OPERATOR = CATALOG | {
    ("formulary.dev", "workflowinvocations", (), ("create", *WATCH, "delete")),
    ("formulary.dev", "governancecontracts", (), tuple(WATCH)),
    ("formulary.dev", "invocationapprovals", (), tuple(WATCH)),
    ("formulary.dev", "workflowinvocations/status", (), ("patch",)),
    ("formulary.dev", "governancecontracts/status", (), ("patch",)),
    ("formulary.dev", "invocationapprovals/status", (), ("patch",)),
}
RUNS = {
    ("", "secrets", (), ("create", "get")),
    ("", "configmaps", (), ("get",)),
    ("", "serviceaccounts", (), ("get",)),
    ("batch", "jobs", (), RUN),
    ("", "pods", (), ("list",)),
}
ASKING = {("authorization.k8s.io", "subjectaccessreviews", (), ("create",))}
OTHER_ENGINES = {("tekton.dev", "pipelineruns", (), RUN), ("argoproj.io", "workflows", (), RUN)}
SERVER = {
    ("authentication.k8s.io", "tokenreviews", (), ("create",)),
    ("authorization.k8s.io", "subjectaccessreviews", (), ("create",)),
}
SCALED = "horizontalpodautoscalers"
TARGETS = {
    (each.group, each.resource, (), ("get", "list") if each.resource == SCALED else ("get",)) for each in KINDS
} | {(BUDGETS.group, BUDGETS.resource, (), ("list",))}
"""What the server reads of what calls are about, and the operator again before a run: these kinds, and no other."""
NODES = {rule for rule in TARGETS if rule[1] == "nodes"}
PLACED = TARGETS - NODES
CONFIGURATION = (
    "admissionregistration.k8s.io",
    "validatingwebhookconfigurations",
    ("formulary-formulary",),
    ("get", "patch"),
)
CERTIFICATE = {
    ("", "secrets", (), ("create",)),
    ("", "secrets", ("formulary-webhook-tls",), ("get", "update")),
}
"""Of the webhook, where the operator makes it."""
LISTING_RULES = ("monitoring.coreos.com", "prometheusrules", (), ("list",))
LEASE = {
    ("coordination.k8s.io", "leases", (), ("create",)),
    ("coordination.k8s.io", "leases", ("formulary-operator",), ("get", "update")),
    ("", "configmaps", ("formulary-audit-checkpoints",), ("get", "patch")),
    ("", "events", (), ("create",)),
}


def granted(objects: list[charts.Object]) -> dict[tuple[str, str], set[tuple[Any, ...]]]:
    """The rules of every binding, by its account and its namespace; no namespace means everywhere."""
    roles = {
        (o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o["rules"]
        for o in objects
        if o["kind"] in ("Role", "ClusterRole")
    }
    found: dict[tuple[str, str], set[tuple[Any, ...]]] = {}
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        namespace = binding["metadata"].get("namespace", "")
        (subject,) = binding["subjects"]
        kind = binding["roleRef"]["kind"]
        rules = roles[kind, "" if kind == "ClusterRole" else namespace, binding["roleRef"]["name"]]
        found.setdefault((subject["name"], namespace), set()).update(
            (group, resource, tuple(rule.get("resourceNames", ())), tuple(rule["verbs"]))
            for rule in rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        )
    return found


def test_by_default_the_operator_watches_everywhere_the_server_asks_and_both_read_targets() -> None:
    assert granted(charts.render(CI["external"])) == {
        ("formulary-server", ""): SERVER | TARGETS,
        ("formulary-operator", ""): OPERATOR | TARGETS | ASKING | {CONFIGURATION},
        ("formulary-operator", "formulary"): LEASE | CERTIFICATE,
        ("formulary-operator", "formulary-runs"): RUNS,
    }


@pytest.mark.parametrize(
    "values",
    [
        {**charts.EXTERNAL, "context": {"target": "off"}},
        {**charts.EXTERNAL, "context": {"target": False}},  # what YAML makes of off
        CI["open"],
    ],
)
def test_where_targets_are_not_read_or_nobody_knows_who_asks_no_right_on_them_is_granted(
    values: dict[str, Any],
) -> None:
    objects = charts.render(values)

    assert not any(TARGETS & rules for rules in granted(objects).values())
    (server,) = [each for each in objects if each["kind"] == "Deployment" and "server" in each["metadata"]["name"]]
    (server,) = server["spec"]["template"]["spec"]["containers"]
    assert {"name": "FORMULARY_CONTEXT_TARGET", "value": "off"} in server["env"]


def test_where_the_product_is_kept_to_namespaces_targets_are_read_there_and_nodes_everywhere() -> None:
    scope = {"rbac": {"scope": "namespace"}, "catalog": {"watchNamespaces": ["formulary", "shop"]}}
    rights = granted(charts.render({**charts.EXTERNAL, **scope}))

    assert rights["formulary-server", ""] == SERVER | NODES
    assert rights["formulary-server", "shop"] == PLACED
    assert NODES <= rights["formulary-operator", ""]
    assert TARGETS & rights["formulary-operator", "shop"] == PLACED


def test_an_operator_that_runs_nothing_reads_no_targets() -> None:
    objects = charts.render({**charts.EXTERNAL, "execution": {"enabled": False}})

    assert not any(TARGETS & rules for (account, _), rules in granted(objects).items() if account != "formulary-server")


def test_another_mapping_is_mounted_and_needs_new_pods() -> None:
    def mounted(labels: list[str]) -> str:
        mapping = {"environment": {"labels": labels, "required": True}}
        objects = charts.render({**charts.EXTERNAL, "context": {"mapping": mapping}})
        pods = [charts.only(objects, "Deployment", f"formulary-{each}") for each in ("server", "operator")]
        volumes = [each for pod in pods for each in pod["spec"]["template"]["spec"]["volumes"]]
        (volume, again) = [each["configMap"]["name"] for each in volumes if each["name"] == "context"]
        assert again == volume, "a run is judged by the labels that its search was judged by"
        kept = yaml.safe_load(charts.only(objects, "ConfigMap", volume)["data"]["mapping.yaml"])
        assert kept == mapping
        return str(volume)

    assert mounted(["stage"]) != mounted(["env"])


def test_each_namespace_that_lets_it_gives_the_operator_what_runs_need_and_no_other_does() -> None:
    objects = charts.render(
        {**charts.EXTERNAL, "execution": {"mode": "auto", "namespaces": ["shop", "payments", "shop"]}}
    )

    found = {namespace for (_, namespace), rules in granted(objects).items() if RUNS & rules}
    assert found == {"shop", "payments", "formulary-runs"}
    assert charts.only(objects, "Namespace", "formulary-runs")["metadata"]["annotations"]["helm.sh/resource-policy"]


def test_runbooks_are_read_where_a_value_says_so_and_nowhere_else() -> None:
    objects = charts.render({**charts.EXTERNAL, "knowledge": {"runbooks": {"namespaces": ["shop", "shop", "docs"]}}})

    reading = ("", "configmaps", (), ("list",))
    assert {place for place, rules in granted(objects).items() if reading in rules} == {
        ("formulary-operator", "shop"),
        ("formulary-operator", "docs"),
    }


@pytest.mark.parametrize(
    ("more", "places"),
    [
        ({}, {""}),
        (
            {"rbac": {"scope": "namespace"}, "catalog": {"watchNamespaces": ["formulary", "shop"]}},
            {"formulary", "shop", "formulary-runs"},
        ),
    ],
)
def test_rules_of_prometheus_are_listed_where_the_operator_watches_if_a_value_says_so(
    more: dict[str, Any], places: set[str]
) -> None:
    for enabled in (False, True):
        values = {**charts.EXTERNAL, **more, "coverage": {"prometheusRules": {"enabled": enabled}}}
        found = {place for place, rules in granted(charts.render(values)).items() if LISTING_RULES in rules}
        assert found == ({("formulary-operator", place) for place in places} if enabled else set())


def test_only_an_explicit_value_gives_the_operator_these_rights_everywhere_and_the_notes_warn_of_it() -> None:
    values = {**charts.EXTERNAL, "execution": {"mode": "auto", "clusterWide": True}}

    assert granted(charts.render(values))["formulary-operator", ""] == (
        OPERATOR | TARGETS | ASKING | RUNS | {CONFIGURATION}
    )
    assert "WARNING" in _notes(values)
    assert "WARNING" not in _notes(charts.EXTERNAL)


def test_the_notes_say_how_a_namespace_lets_the_operator_run_something() -> None:
    notes = _notes(charts.EXTERNAL)

    assert "--clusterrole=formulary-formulary-runs --serviceaccount=formulary:formulary-operator" in notes
    assert "kubectl -n NAMESPACE create rolebinding" not in _notes(CI["open"])


def test_an_upgrade_says_that_runs_have_to_be_let() -> None:
    assert "This one cannot: let workflows be run" in _notes(charts.EXTERNAL, upgrade=True)
    assert "This one cannot: let workflows be run" not in _notes(charts.EXTERNAL)


def test_with_namespace_scope_the_operator_reads_only_what_it_watches() -> None:
    own = {
        (group, resource, tuple(each.replace("formulary-", "formulary-remedies-", 1) for each in names), verbs)
        for group, resource, names, verbs in LEASE | CERTIFICATE
    }
    assert granted(charts.render(CI["namespaced"])) == {
        ("catalog-server", ""): SERVER | NODES,
        **{("catalog-server", place): PLACED for place in ("catalog", "payments", "catalog-runs")},
        ("default", ""): NODES | ASKING | {(*CONFIGURATION[:2], ("formulary-formulary-remedies",), CONFIGURATION[3])},
        ("default", "catalog"): OPERATOR | PLACED,
        ("default", "payments"): OPERATOR | PLACED | RUNS | OTHER_ENGINES,
        ("default", "catalog-runs"): OPERATOR | PLACED | RUNS | OTHER_ENGINES,
        ("default", "formulary"): own,
        ("holmesgpt", "payments"): {("formulary.dev", "workflowinvocations", (), ("create", *WATCH))},
    }


def test_a_self_signed_webhook_adds_its_secret_and_its_configuration_and_what_is_turned_off_needs_no_rights() -> None:
    assert granted(charts.render(CI["open"])) == {
        ("formulary-operator", ""): CATALOG | {CONFIGURATION},
        ("formulary-operator", "formulary"): LEASE | CERTIFICATE,
    }
    off = {**charts.EXTERNAL, "webhook": {"enabled": False}}
    assert granted(charts.render(off)) == {
        ("formulary-server", ""): SERVER | TARGETS,
        ("formulary-operator", ""): OPERATOR | TARGETS | ASKING,
        ("formulary-operator", "formulary"): LEASE,
        ("formulary-operator", "formulary-runs"): RUNS,
    }


def test_a_webhook_with_a_certificate_of_cert_manager_adds_its_configuration_alone() -> None:
    more = {
        ("formulary-operator", ""): OPERATOR | TARGETS | ASKING | {CONFIGURATION, LISTING_RULES},
        ("formulary-operator", "formulary"): LEASE,
    }

    assert granted(charts.render(CI["cnpg"])) == granted(charts.render(CI["external"])) | more


@pytest.mark.parametrize("certificates", ["self-signed", "cert-manager"])
def test_the_chart_names_no_path_of_a_webhook_and_the_operator_knows_each_by_what_it_asks(certificates: str) -> None:
    objects = charts.render({**charts.EXTERNAL, "webhook": {"enabled": True, "certificates": certificates}})
    webhooks = charts.only(objects, "ValidatingWebhookConfiguration")["webhooks"]

    assert {
        webhook["name"]: {resource for rule in webhook["rules"] for resource in rule["resources"]}
        for webhook in webhooks
    } == {webhook: {resource.plural for resource in resources} for webhook, resources in ASKED.items()}
    assert {webhook["failurePolicy"] for webhook in webhooks} == {"Ignore"}, "nothing is locked out"
    assert not [webhook for webhook in webhooks if "path" in webhook["clientConfig"]["service"]]


@pytest.mark.parametrize(
    ("execution", "enabled", "there"),
    [
        (True, None, True),
        (False, None, False),
        (True, False, False),
        (False, True, True),
    ],
)
def test_there_is_a_webhook_where_something_is_run_unless_the_value_says_otherwise(
    execution: bool, enabled: bool | None, there: bool
) -> None:
    webhook = {} if enabled is None else {"enabled": enabled}
    values = {**charts.EXTERNAL, "execution": {"enabled": execution}, "webhook": webhook}
    objects = charts.render({**values, "starterCatalog": {"enabled": True}})

    assert ("ValidatingWebhookConfiguration" in {found["kind"] for found in objects}) is there
    with_port = {
        container["name"]
        for _, pod in charts.pods(objects)
        for container in pod["containers"]
        if "FORMULARY_WEBHOOK_PORT" in {variable["name"] for variable in container.get("env", [])}
    }
    assert with_port == ({"operator", "starter"} if there else set())


def test_the_notes_say_how_to_approve_where_nobody_is_recorded() -> None:
    off = {**charts.EXTERNAL, "webhook": {"enabled": False}}

    for values in (off, {**off, "execution": {"mode": "approve", "clusterWide": True}}):
        assert "An approval made with kubectl does not count: approve runs with `formulary approve`" in _notes(values)
    assert "does not count" not in _notes(charts.EXTERNAL)
    assert "does not count" not in _notes({**off, "execution": {"enabled": False}})
    assert "their author is unknown" in _notes(charts.EXTERNAL, upgrade=True)
    assert "their author is unknown" not in _notes(charts.EXTERNAL)


def test_the_starter_catalog_is_applied_by_an_account_of_its_own() -> None:
    found = granted(charts.render(CI["trial"]))

    assert found["formulary-starter", "formulary"] == {
        ("kubernaut.ai", "remediationworkflows", (), ("create", "patch"))
    }
    assert found["formulary-all-in-one", ""] == SERVER | TARGETS | OPERATOR | {CONFIGURATION}


def test_people_with_the_roles_of_the_cluster_may_view_all_and_edit_workflows_and_runs() -> None:
    objects = charts.render(CI["external"])
    view, edit = (charts.only(objects, "ClusterRole", f"formulary-formulary-{name}") for name in ("view", "edit"))

    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert "rbac.authorization.k8s.io/aggregate-to-view" not in edit["metadata"]["labels"]
    assert {verb for rule in view["rules"] for verb in rule["verbs"]} == set(WATCH)
    assert _resources(view) == {
        *("remediationworkflows", "aianalyses", "incidentsources"),
        *("workflowinvocations", "governancecontracts", "invocationapprovals"),
    }
    assert _resources(edit) == {"remediationworkflows", "workflowinvocations", "aianalyses/constraints"}


def test_what_incidents_demand_is_for_people_and_not_for_agents() -> None:
    objects = charts.render(CI["external"])
    roles = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ClusterRole"}
    reading = {
        name
        for name, role in roles.items()
        for rule in role["rules"]
        if {"aianalyses/constraints", "aianalyses/*", "*"} & {*rule["resources"]}
    }

    # Earlier releases said to bind agents to the cluster's role view.
    view = "rbac.authorization.k8s.io/aggregate-to-view"
    assert not [name for name in reading if view in roles[name]["metadata"]["labels"]]
    assert reading == {"formulary-formulary-edit", "formulary-formulary-approver"}
    agent = roles["formulary-formulary-agent"]
    assert not [label for label in agent["metadata"]["labels"] if "aggregate-to" in label]
    assert "which needs the ClusterRole formulary-formulary-agent" in _notes(charts.EXTERNAL)


@pytest.mark.parametrize("read", ["kubernetes", "off"])
def test_the_role_of_agents_lets_them_see_workflows_use_incidents_and_name_targets(read: str) -> None:
    role = charts.only(
        charts.render({**charts.EXTERNAL, "context": {"target": read}}), "ClusterRole", "formulary-formulary-agent"
    )

    given = {
        (group, resource, *rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    targets = {(each.group, each.resource, "get") for each in KINDS} if read == "kubernetes" else set()
    assert given == targets | {
        ("kubernaut.ai", "remediationworkflows", "list"),
        ("kubernaut.ai", "aianalyses", "get"),
    }


@pytest.mark.parametrize("resource", ["invocationapprovals", "governancecontracts"])
def test_who_approves_and_who_writes_rules_follows_from_no_role_of_the_cluster(resource: str) -> None:
    writing = [
        role["metadata"]
        for role in charts.render(CI["external"])
        if role["kind"] == "ClusterRole"
        and any(resource in rule["resources"] and not set(WATCH).issuperset(rule["verbs"]) for rule in role["rules"])
    ]

    (found,) = writing
    assert (
        found["name"]
        == {
            "invocationapprovals": "formulary-formulary-approver",
            "governancecontracts": "formulary-formulary-governance-editor",
        }[resource]
    )
    assert not [label for label in found["labels"] if "aggregate-to" in label]


@pytest.mark.parametrize("name", ["open", "default"])
def test_where_nothing_is_run_nobody_is_given_rights_on_runs_but_who_shall_ask_for_dry_ones(name: str) -> None:
    objects = charts.render(CI[name])
    roles = [o for o in objects if o["kind"] in ("Role", "ClusterRole")]

    runs = {r["metadata"]["name"] for r in roles for rule in r["rules"] if "workflowinvocations" in rule["resources"]}
    assert runs == {"formulary-formulary-invoker"}
    assert not [o for o in objects if o["kind"].endswith("Binding") and o["roleRef"]["name"] in runs]


def test_with_no_values_one_pod_reads_and_writes_nothing_but_what_is_its_own() -> None:
    objects = charts.render({})
    (_, pod), *_ = [(name, spec) for name, spec in charts.pods(objects) if name.startswith("Deployment")]
    rights = granted(objects)

    assert [o["metadata"]["name"] for o in objects if o["kind"] in ("Deployment", "StatefulSet")] == ["formulary"]
    assert [each["name"] for each in pod["containers"]] == ["server", "operator"]
    assert rights.keys() == {
        ("formulary-all-in-one", ""),
        ("formulary-all-in-one", "formulary"),
        ("formulary-starter", "formulary"),
    }
    assert rights["formulary-all-in-one", ""] == SERVER | TARGETS | CATALOG
    assert rights["formulary-all-in-one", "formulary"] == LEASE
    assert not [o for o in objects if o["kind"] in ("Secret", "Namespace", "ValidatingWebhookConfiguration")]
    assert charts.templates({}) == charts.templates({}), "Argo CD finds no difference"


@pytest.mark.parametrize(
    ("execution", "mode"),
    [
        ({}, "off"),
        ({"mode": "off"}, "off"),
        ({"mode": False}, "off"),  # what YAML makes of off
        ({"mode": "approve"}, "approve"),
        ({"enabled": True}, "auto"),
        ({"enabled": False}, "off"),
        ({"enabled": True, "mode": "off"}, "off"),
        ({"enabled": True, "mode": "approve"}, "approve"),
    ],
)
def test_server_and_operator_know_the_mode_and_values_of_earlier_releases_keep_their_meaning(
    execution: dict[str, Any], mode: str
) -> None:
    values = {**charts.EXTERNAL, "execution": execution}
    pods = [pod for name, pod in charts.pods(charts.render(values)) if name.startswith("Deployment")]
    variables = [each for pod in pods for container in pod["containers"] for each in container["env"]]

    assert [each["value"] for each in variables if each["name"] == "FORMULARY_EXECUTION"] == [mode, mode]


def test_an_upgrade_that_would_run_nothing_any_more_says_so() -> None:
    silent = {"database": charts.EXTERNAL["database"]}

    assert "WARNING: earlier releases ran workflows" in _notes(silent, upgrade=True)
    assert "WARNING" not in _notes(silent)
    assert "WARNING" not in _notes({**silent, "execution": {"mode": "off"}}, upgrade=True)


def test_the_notes_say_what_is_on_what_is_off_and_how_an_agent_comes_in() -> None:
    notes = _notes({})

    assert "On: search for agents (MCP at http://formulary.formulary.svc:8080/mcp)" in notes
    assert "Off: runs." in notes
    assert "asking takes the role formulary-formulary-invoker, which execution.agents gives" in notes
    assert '"url": "http://formulary.formulary.svc:8080/mcp"' in notes


def test_notes_and_refusals_name_pages_of_the_documentation_site_that_there_are() -> None:
    texts = {template["name"]: template["data"] for template in charts.chart().templates}
    named = {name for text in texts.values() for name in re.findall(r'include "formulary\.page" "([\w-]+)"', text)}

    assert named == {"governance", "install", "invocation"}
    assert {name for name in named if not (charts.CHART.parents[1] / "docs" / f"{name}.md").is_file()} == set()
    assert f"execution.mode=approve or auto ({DOCUMENTATION}/docs/invocation.html)" in _notes({})
    assert [name for name in texts if name.endswith(("NOTES.txt", "guards.yaml")) and ".md" in texts[name]] == []


def _notes(values: dict[str, Any], *, upgrade: bool = False) -> str:
    """What Helm prints after the install or the upgrade, on one line."""
    (notes,) = [text for path, text in charts.templates(values, upgrade=upgrade).items() if path.endswith("NOTES.txt")]
    return " ".join(notes.split())


def _resources(role: charts.Object) -> set[str]:
    return {resource for rule in role["rules"] for resource in rule["resources"]}
