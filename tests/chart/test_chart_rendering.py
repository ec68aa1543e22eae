"""What the chart renders: compared with golden files, checked as Kubernetes and its pod security would."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from helm_python import lint
from pydantic_settings import BaseSettings

from formulary_catalog.settings import Settings
from formulary_operator.settings import OperatorSettings
from support import charts
from support.apischema import unknown_fields
from support.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]
CI = charts.ci_values()
_TEXT_KEYS = {"name", "namespace", "serviceAccountName", "priorityClassName", "value", "key", "secretName"}
_RANDOM = re.compile(r"^(\s+(?:(?:[\w-]+-)?(?:password|uri)|input\.key): ).+$", re.MULTILINE)


@pytest.mark.parametrize("name", CI)
def test_each_example_of_values_renders_as_before(name: str) -> None:
    rendered = _shown(charts.render(CI[name]))
    assert_golden(rendered, GOLDEN / f"{name}.yaml")


@pytest.mark.parametrize("name", CI)
def test_the_chart_lints_with_each_example_of_values(name: str) -> None:
    report = lint(charts.CHART, CI[name], strict=True, namespace="formulary")

    assert [m["error"] for m in report["messages"] if m["severity"] > 1] == []


@pytest.mark.parametrize("name", CI)
def test_every_pod_meets_the_restricted_profile_with_a_read_only_root(name: str) -> None:
    problems = [
        f"{pod}: {problem}"
        for pod, spec in charts.pods(charts.render(CI[name]))
        for problem in _unrestricted(spec, assigned=name == "openshift")
    ]

    assert problems == []


@pytest.mark.parametrize("name", CI)
def test_only_pods_that_ask_the_api_server_get_a_token(name: str) -> None:
    with_token = {pod for pod, spec in charts.pods(charts.render(CI[name])) if spec["automountServiceAccountToken"]}
    needed = {
        "external": {"Deployment formulary-server", "Deployment formulary-operator"},
        "cnpg": {"Deployment formulary-server", "Deployment formulary-operator"},
        "namespaced": {"Deployment formulary-remedies-server", "Deployment formulary-remedies-operator"},
        "open": {"Deployment formulary-operator"},
        "openshift": {"Deployment formulary-server", "Deployment formulary-operator", "Job formulary-starter"},
        "trial": {"Deployment formulary", "Job formulary-starter"},
        "default": {"Deployment formulary", "Job formulary-starter"},
    }

    assert {re.sub(r"-[0-9a-f]{8}$", "", pod) for pod in with_token} == needed[name]


@pytest.mark.parametrize("name", CI)
def test_kubernetes_knows_every_field(name: str) -> None:
    problems = [problem for found in charts.render(CI[name]) for problem in unknown_fields(found)]

    assert problems == []


@pytest.mark.parametrize("name", CI)
def test_every_object_carries_the_recommended_and_the_common_labels(name: str) -> None:
    wanted = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "helm.sh/chart"}
    wanted |= CI[name].get("commonLabels", {}).keys()

    bare = [
        (o["kind"], o["metadata"]["name"])
        for o in charts.render(CI[name])
        if not o["metadata"]["name"].endswith(("-extra", "-text")) and not wanted <= o["metadata"]["labels"].keys()
    ]

    assert bare == []


@pytest.mark.parametrize("name", CI)
def test_services_and_policies_select_the_pods_that_they_are_for(name: str) -> None:
    objects = charts.render(CI[name])
    labels = [
        o["metadata"]["labels"] if o["kind"] == "Pod" else o["spec"]["template"]["metadata"]["labels"]
        for o in objects
        if o["kind"] in ("Pod", "Deployment", "StatefulSet", "Job")
    ]
    selectors = [o["spec"]["selector"] for o in objects if o["kind"] == "Service"]
    selectors += [o["spec"]["podSelector"]["matchLabels"] for o in objects if o["kind"] == "NetworkPolicy"]

    assert [s for s in selectors if not any(s.items() <= pod.items() for pod in labels)] == []


def test_a_digest_wins_over_the_tag() -> None:
    digest = "sha256:" + "0" * 64
    objects = charts.render({**charts.EXTERNAL, "image": {"repository": "r", "tag": "t", "digest": digest}})

    assert {c["image"] for _, spec in charts.pods(objects) for c in spec["containers"]} == {f"r@{digest}"}


def test_a_parent_chart_says_for_all_where_images_come_from_and_how_they_are_pulled() -> None:
    values = {"global": {"imageRegistry": "mirror.example/", "imagePullSecrets": [{"name": "pull"}]}}
    pods = [spec for _, spec in charts.pods(charts.render(values))]

    assert {c["image"].partition("/")[0] for spec in pods for c in spec["containers"]} == {"mirror.example"}
    assert all(spec["imagePullSecrets"] == [{"name": "pull"}] for spec in pods)


def test_more_containers_and_fields_of_pods_come_beside_those_of_the_chart() -> None:
    more = {"extraContainers": [{"name": "proxy", "image": "proxy"}], "podSpec": {"runtimeClassName": "gvisor"}}
    spec = charts.only(charts.render({"server": more}), "Deployment")["spec"]["template"]["spec"]

    assert [each["name"] for each in spec["containers"]] == ["server", "operator", "proxy"]
    assert spec["runtimeClassName"] == "gvisor"
    assert "hostAliases" not in spec


def test_names_that_lead_in_from_outside_are_accepted_by_the_server() -> None:
    for name, host in (("namespaced", "formulary.example"), ("cnpg", "route.example")):
        pods = [spec for _, spec in charts.pods(charts.render(CI[name]))]
        variables = {v["name"]: v.get("value") for spec in pods for c in spec["containers"] for v in c.get("env", [])}
        assert host in variables["FORMULARY_ALLOWED_HOSTS"].split(",")


def test_a_database_that_exists_is_migrated_before_anything_else_changes() -> None:
    installs = charts.render(charts.EXTERNAL)
    upgrades = charts.render(CI["trial"], upgrade=True)

    assert [_hooks(objects) for objects in (installs, upgrades)] == ["pre-install,pre-upgrade"] * 2


def test_a_database_that_the_release_makes_is_migrated_beside_it() -> None:
    assert _hooks(charts.render(CI["trial"])) == ""


def test_the_policy_of_a_migration_is_there_before_the_migration() -> None:
    for objects in (charts.render(charts.EXTERNAL), charts.render(CI["trial"], upgrade=True)):
        policy = charts.only(objects, "NetworkPolicy", "formulary-migration")["metadata"]["annotations"]

        assert policy["helm.sh/hook"] == _hooks(objects)
        assert int(policy["helm.sh/hook-weight"]) < 0

    beside = charts.only(charts.render(CI["trial"]), "NetworkPolicy", "formulary-migration")
    assert "annotations" not in beside["metadata"]


@pytest.mark.parametrize("name", CI)
def test_every_pod_of_ours_but_the_database_has_a_policy_for_what_it_connects_to(name: str) -> None:
    objects = charts.render(CI[name])
    policies = [o["spec"] for o in objects if o["kind"] == "NetworkPolicy" and "egress" in o["spec"]]
    allowed = {policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for policy in policies}
    pods = {
        o["metadata"]["labels"]["app.kubernetes.io/component"]
        for o in objects
        if o["kind"] in ("Pod", "Deployment", "Job")
    }

    assert allowed == pods


def test_names_and_namespaces_that_look_like_numbers_stay_text() -> None:
    values = {
        **charts.EXTERNAL,
        "fullnameOverride": "1e3",
        "nameOverride": "6",
        "catalog": {"namespace": "123", "watchNamespaces": ["123"]},
        "rbac": {"scope": "namespace"},
        "server": {"serviceAccount": {"name": "7"}, "priorityClassName": "8"},
        "database": {"external": {"existingSecret": "9", "serverKey": "10", "operatorKey": "11"}},
    }

    problems = [
        (o["kind"], key, value)
        for o in charts.render(values, namespace="45")
        for key, value in _texts(o)
        if (key in _TEXT_KEYS or key.startswith("app.kubernetes.io/")) and not isinstance(value, str)
    ]

    assert problems == []


def test_every_pod_runs_where_pods_may_run_unless_it_has_a_place_of_its_own() -> None:
    place = {"nodeSelector": {"pool": "tools"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "low"}
    values = {**CI["trial"], "allInOne": False, "pods": place, "operator": {"nodeSelector": {"pool": "control"}}}

    pods = list(charts.pods(charts.render(values)))

    pools = {name: spec["nodeSelector"]["pool"] for name, spec in pods}
    assert len(pods) == 6
    assert pools == dict.fromkeys(pools, "tools") | {"Deployment formulary-operator": "control"}
    for _, spec in pods:
        assert (spec["tolerations"], spec["priorityClassName"]) == (place["tolerations"], "low")


def test_every_object_is_in_the_namespace_of_the_override_and_carries_the_common_annotations() -> None:
    objects = charts.render(CI["openshift"])

    places = {o["metadata"]["namespace"] for o in objects if "namespace" in o["metadata"]}
    assert places == {"remedies", "shop", "formulary-runs"}
    subjects = [s for o in objects if o["kind"].endswith("RoleBinding") for s in o["subjects"]]
    assert {subject["namespace"] for subject in subjects} == {"remedies"}
    assert [
        o["metadata"]["name"] for o in objects if not o["metadata"].get("annotations", {}).get("example/owner")
    ] == []


def test_every_pod_carries_the_annotations_of_all_pods_and_those_of_its_own() -> None:
    objects = charts.render(CI["openshift"])
    annotations = {
        o["metadata"]["name"]: (o if o["kind"] == "Pod" else o["spec"]["template"])["metadata"]["annotations"]
        for o in objects
        if o["kind"] in ("Pod", "Deployment", "StatefulSet", "Job")
    }

    assert {a["sidecar.istio.io/inject"] for a in annotations.values()} == {"false"}
    assert [name for name, a in annotations.items() if "example/own" in a] == ["formulary-operator"]


@pytest.mark.parametrize("component", ["server", "operator"])
def test_volumes_and_arguments_of_ones_own_come_beside_those_of_the_chart(component: str) -> None:
    deployment = charts.only(charts.render(CI["openshift"]), "Deployment", f"formulary-{component}")
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    own = {"scratch", "input-key", *(["tls"] if component == "server" else [])}

    assert {v["name"] for v in spec["volumes"]} == {*own, "authorities"}
    assert {m["name"] for m in container["volumeMounts"]} == {*own, "authorities"}
    if component == "server":
        assert container["args"] == ["--host", "0.0.0.0", "--port", "8080", "--log-level", "debug"]


@pytest.mark.parametrize("name", ["cnpg", "openshift"])
def test_with_tls_probes_monitors_and_helm_test_ask_the_server_over_https(name: str) -> None:
    objects = charts.render(CI[name])
    secret = {"cnpg": "formulary-server-tls", "openshift": "formulary-serving"}[name]
    spec = charts.only(objects, "Deployment", "formulary-server")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    doctor = charts.only(objects, "Pod")["spec"]["containers"][0]
    scraped = charts.only(objects, "ServiceMonitor", "formulary-server")["spec"]["endpoints"][0]

    assert {container[f"{probe}Probe"]["httpGet"]["scheme"] for probe in ("startup", "liveness", "readiness")} == {
        "HTTPS"
    }
    assert [v["secret"]["secretName"] for v in spec["volumes"] if v["name"] == "tls"] == [secret]
    assert doctor["args"][1].startswith("https://")
    assert (scraped["scheme"], scraped["tlsConfig"]["ca"]["secret"]["name"]) == ("https", secret)
    certificates = [o for o in objects if o["kind"] == "Certificate" and o["metadata"]["name"] == "formulary-server"]
    assert [c["spec"]["secretName"] for c in certificates] == ([secret] if name == "cnpg" else [])


def test_several_operators_are_not_evicted_at_once() -> None:
    budget = charts.only(charts.render(CI["openshift"]), "PodDisruptionBudget", "formulary-operator")

    assert budget["spec"]["maxUnavailable"] == 1


def test_the_chart_says_truly_what_it_is() -> None:
    about = yaml.safe_load((charts.CHART / "Chart.yaml").read_text())
    crds = {crd["kind"] for crd in yaml.safe_load(about["annotations"]["artifacthub.io/crds"])}

    assert crds == {o["spec"]["names"]["kind"] for o in charts.render(CI["external"]) if "CustomRes" in o["kind"]}
    assert about["icon"].startswith("data:image/svg+xml;base64,")
    assert about["maintainers"] == [{"name": "Formulary"}]
    assert f"Kubernetes {about['kubeVersion'][2:6]} or newer" in (charts.CHART / "README.md").read_text()


def test_large_numbers_are_written_out() -> None:
    objects = charts.render({**charts.EXTERNAL, "operator": {"resyncSeconds": 1_000_000}})

    assert _environment(objects, "operator")["FORMULARY_RESYNC_SECONDS"] == "1000000"


def test_whoever_connects_to_an_external_database_knows_its_authority() -> None:
    database = {**charts.EXTERNAL["database"]["external"], "caSecret": "database-ca"}
    objects = charts.render({"database": {"external": database}})
    pods = {name.split()[0] + " " + spec["containers"][0]["name"]: spec for name, spec in charts.pods(objects)}

    assert pods.keys() == {"Deployment server", "Deployment operator", "Job migrate", "Pod doctor"}
    for spec in pods.values():
        (container,) = spec["containers"]
        variables = {variable["name"]: variable.get("value") for variable in container["env"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        secrets = {volume["name"]: volume["secret"] for volume in spec["volumes"] if "secret" in volume}
        assert variables["PGSSLROOTCERT"] == f"{mounts['database-ca']}/ca.crt"
        assert secrets["database-ca"]["secretName"] == "database-ca"


def test_a_restored_cluster_is_not_made_anew_as_well() -> None:
    recovery = {"recovery": {"source": "backup", "database": "formulary", "owner": "formulary"}}
    values = {"database": {"mode": "cnpg", "cnpg": {"spec": {"bootstrap": recovery}}}}

    assert charts.only(charts.render(values), "Cluster")["spec"]["bootstrap"] == recovery


def test_a_server_that_ends_answers_until_its_endpoints_are_withdrawn() -> None:
    pod = charts.only(charts.render(charts.EXTERNAL), "Deployment", "formulary-server")["spec"]["template"]["spec"]
    command = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]

    assert command == ["python3", "-c", "import time; time.sleep(5)"]
    assert pod["terminationGracePeriodSeconds"] == 30


def test_another_version_runs_other_jobs() -> None:
    older, newer = (
        {o["metadata"]["name"] for o in charts.render({**CI["trial"], "image": {"tag": tag}}) if o["kind"] == "Job"}
        for tag in ("1.0.0", "1.1.0")
    )

    assert not older & newer


@pytest.mark.parametrize("name", sorted(CI.keys() - {"default"}))
def test_only_the_migration_gets_the_address_of_the_owner(name: str) -> None:
    objects = charts.render(CI[name])
    secrets = {o["metadata"]["name"]: o["data"] for o in objects if o["kind"] == "Secret"}
    external = CI[name]["database"].get("external", {})
    keys = {external.get("serverKey"): "formulary_server", external.get("operatorKey"): "formulary_writer"}
    users = {}
    for container in (each for _, spec in charts.pods(objects) for each in spec["containers"]):
        variables = {each["name"]: each for each in container.get("env", [])}
        if "FORMULARY_DATABASE_URL" not in variables:
            continue
        place = variables["FORMULARY_DATABASE_URL"]["valueFrom"]["secretKeyRef"]
        encoded = secrets.get(place["name"], {}).get(place["key"], "")
        made = urlsplit(base64.b64decode(encoded).decode()).username
        users[container["name"]] = made or keys.get(place["key"], "owner")

    expected = {"server": "formulary_server", "operator": "formulary_writer", "doctor": "formulary_writer"}
    migration = {"migrate": "formulary" if name == "trial" else "owner"}
    assert users == expected | ({} if name == "namespaced" else migration)


def test_the_roles_of_a_cluster_log_in_with_the_passwords_of_their_secrets() -> None:
    objects = charts.render(CI["cnpg"])
    roles = {each["name"]: each for each in charts.only(objects, "Cluster")["spec"]["managed"]["roles"]}
    addresses = {}
    for role in ("formulary_server", "formulary_writer"):
        secret = charts.only(objects, "Secret", roles[role]["passwordSecret"]["name"])
        known = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
        assert secret["type"] == "kubernetes.io/basic-auth"
        assert (known["username"], roles[role]["login"]) == (role, True)
        assert not roles[role].keys() & {"inRoles", "superuser", "bypassrls", "createrole"}
        addresses[role] = known["uri"].replace(known["password"], "…")

    place = "formulary-postgres-rw.formulary.svc:5432/formulary"
    assert addresses == {role: f"postgresql://{role}:…@{place}" for role in addresses}
    assert roles["formulary_insight"]["connectionLimit"] == 2, "roles of one's own are added as they are"


def test_the_server_accepts_the_names_of_its_service() -> None:
    container = charts.only(charts.render(CI["namespaced"]), "Deployment", "formulary-remedies-server")
    env = {e["name"]: e.get("value") for e in container["spec"]["template"]["spec"]["containers"][0]["env"]}

    name = "formulary-remedies"
    assert env["FORMULARY_ALLOWED_HOSTS"] == (
        f"{name},{name}.formulary,{name}.formulary.svc,{name}.formulary.svc.cluster.local,formulary.example"
    )


@pytest.mark.parametrize("name", CI)
def test_every_variable_that_a_container_gets_is_a_setting_of_its_command(name: str) -> None:
    settings: dict[str, type[BaseSettings]] = {"formulary": Settings, "formulary-operator": OperatorSettings}
    given = {
        (container["command"][0], variable["name"])
        for _, spec in charts.pods(charts.render(CI[name]))
        for container in spec["containers"]
        for variable in container.get("env", [])
        if variable["name"].startswith("FORMULARY_") and variable["name"] != "FORMULARY_LOG_LEVEL"
    }

    known = {
        (command, f"FORMULARY_{field.upper()}") for command, model in settings.items() for field in model.model_fields
    }
    assert given - known == set()


@pytest.mark.parametrize("name", ["cnpg", "open"])
def test_the_values_for_holmesgpt_are_those_of_the_example_with_the_address_in_the_cluster(name: str) -> None:
    configuration = charts.only(charts.render(CI[name]), "ConfigMap", "formulary-holmesgpt")["data"]["values.yaml"]
    rendered = yaml.safe_load(configuration)["mcp_servers"]["formulary"]
    example = yaml.safe_load((ROOT / "examples" / "holmesgpt.yaml").read_text())["mcp_servers"]["formulary"]

    headers = rendered["config"].pop("headers", None)
    assert headers == ({"Authorization": "Bearer {{ env.FORMULARY_TOKEN }}"} if name == "cnpg" else None)
    assert (
        rendered["config"].pop("url") == f"{'https' if name == 'cnpg' else 'http'}://formulary.formulary.svc:8080/mcp"
    )
    assert rendered["config"].items() <= example["config"].items()
    assert rendered["llm_instructions"] == example["llm_instructions"]


def _environment(objects: list[charts.Object], container: str) -> dict[str, str]:
    """The variables with a value that the container of this name gets."""
    containers = [c for _, spec in charts.pods(objects) for c in spec["containers"] if c["name"] == container]
    return {variable["name"]: variable["value"] for variable in containers[0]["env"] if "value" in variable}


def _texts(value: object) -> Iterator[tuple[str, object]]:
    """Every key with a value of its own, at any depth."""
    if isinstance(value, dict):
        for key, child in value.items():
            if not isinstance(child, dict | list):
                yield key, child
            yield from _texts(child)
    elif isinstance(value, list):
        for child in value:
            yield from _texts(child)


def _hooks(objects: list[charts.Object]) -> str:
    (migration,) = [o for o in objects if o["kind"] == "Job" and "-migrate-" in o["metadata"]["name"]]
    return str(migration["metadata"]["annotations"].get("helm.sh/hook", ""))


def _shown(objects: list[charts.Object]) -> str:
    """The objects as text, without passwords, and CRDs by name: these have their own tests."""
    crds = [o for o in objects if o["kind"] == "CustomResourceDefinition"]
    for crd in crds:
        crd["spec"] = "…"
    text = yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True, width=120)
    return _RANDOM.sub(r"\1…", text)


def _unrestricted(spec: dict[str, Any], *, assigned: bool) -> list[str]:
    """What the restricted pod security standard, or our rule on top of it, forbids in this pod.

    Where ids are assigned, as by OpenShift, a pod that names one is refused.
    """
    pod = spec.get("securityContext", {})
    problems = [f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    problems += [f"volume {v['name']}" for v in spec.get("volumes", []) if "hostPath" in v]
    if pod.get("runAsNonRoot") is not True or not (assigned or pod.get("runAsUser", 0) > 0):
        problems.append("may run as root")
    if assigned:
        problems += [f"{name} is set" for name in ("runAsUser", "runAsGroup", "fsGroup") if name in pod]
    if pod.get("seccompProfile") != {"type": "RuntimeDefault"}:
        problems.append("no seccomp profile")
    containers = [*spec.get("initContainers", []), *spec["containers"]]
    safe = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    problems += [
        f"container {c['name']}: {c.get('securityContext')}" for c in containers if c["securityContext"] != safe
    ]
    problems += [
        f"container {c['name']} has no requests or memory limit"
        for c in containers
        if not {"cpu", "memory"} <= c["resources"]["requests"].keys() or "memory" not in c["resources"]["limits"]
    ]
    return problems
