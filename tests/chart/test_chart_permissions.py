"""What the chart allows whom: exactly this, no rule more."""

from typing import Any

from support import charts

CI = charts.ci_values()
WATCH = ["get", "list", "watch"]
OPERATOR = {
    ("kubernaut.ai", "remediationworkflows", (), tuple(WATCH)),
    ("kubernaut.ai", "aianalyses", (), tuple(WATCH)),
    ("kubernaut.ai", "remediationworkflows/status", (), ("patch",)),
    ("", "events", (), ("create",)),
}
SERVER = {
    ("authentication.k8s.io", "tokenreviews", (), ("create",)),
    ("authorization.k8s.io", "subjectaccessreviews", (), ("create",)),
}
LEASE = {
    ("coordination.k8s.io", "leases", (), ("create",)),
    ("coordination.k8s.io", "leases", ("formulary-operator",), ("get", "update")),
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
        rules = roles[binding["roleRef"]["kind"], namespace, binding["roleRef"]["name"]]
        found.setdefault((subject["name"], namespace), set()).update(
            (group, resource, tuple(rule.get("resourceNames", ())), tuple(rule["verbs"]))
            for rule in rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        )
    return found


def test_by_default_the_operator_watches_everywhere_and_the_server_only_asks() -> None:
    assert granted(charts.render(CI["external"])) == {
        ("formulary-server", ""): SERVER,
        ("formulary-operator", ""): OPERATOR,
        ("formulary-operator", "formulary"): LEASE,
    }


def test_with_namespace_scope_the_operator_reads_only_what_it_watches() -> None:
    name = "formulary-remedies-operator"
    lease = {(group, resource, (name,) if names else (), verbs) for group, resource, names, verbs in LEASE}
    assert granted(charts.render(CI["namespaced"])) == {
        ("catalog-server", ""): SERVER,
        ("default", "catalog"): OPERATOR,
        ("default", "payments"): OPERATOR,
        ("default", "formulary"): lease,
    }


def test_a_self_signed_webhook_adds_its_secret_and_its_configuration_and_no_authentication_takes_away_the_server() -> (
    None
):
    secret = {
        ("", "secrets", (), ("create",)),
        ("", "secrets", ("formulary-webhook-tls",), ("get", "update")),
    }
    configuration = (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        ("formulary-formulary",),
        ("get", "patch"),
    )

    assert granted(charts.render(CI["open"])) == {
        ("formulary-operator", ""): OPERATOR | {configuration},
        ("formulary-operator", "formulary"): LEASE | secret,
    }


def test_a_webhook_with_a_certificate_of_cert_manager_adds_nothing() -> None:
    assert granted(charts.render(CI["cnpg"])) == granted(charts.render(CI["external"]))


def test_the_starter_catalog_is_applied_by_an_account_of_its_own() -> None:
    found = granted(charts.render(CI["trial"]))

    assert found["formulary-starter", "formulary"] == {
        ("kubernaut.ai", "remediationworkflows", (), ("create", "patch"))
    }
    assert found["formulary-all-in-one", ""] == SERVER | OPERATOR


def test_people_with_the_roles_of_the_cluster_may_view_and_edit_workflows() -> None:
    objects = charts.render(CI["external"])
    view, edit = (charts.only(objects, "ClusterRole", f"formulary-formulary-{name}") for name in ("view", "edit"))

    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert "rbac.authorization.k8s.io/aggregate-to-view" not in edit["metadata"]["labels"]
    assert {verb for rule in view["rules"] for verb in rule["verbs"]} == set(WATCH)
    assert {resource for rule in edit["rules"] for resource in rule["resources"]} == {"remediationworkflows"}
