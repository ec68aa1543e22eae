"""Small catalogs and incidents that Hypothesis draws: what a caller sees, what is foreign, a secret label."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.workflows.labels import normalize_detected
from support import manifest
from support.filling import entry

SECRET = "v4ult"
NAMES = ["oom-raise", "oom-scale-out", "node-drain"]
SIGNALS = ["OOMKilled", "Evicted", "DiskAlert", "*"]
ACTIONS = ["RestartPod", "DrainNode"]
some_custom = st.dictionaries(
    st.sampled_from(["team", "region"]), st.lists(st.sampled_from([SECRET, "other", "*"]), min_size=1), max_size=2
)
some_detected = st.dictionaries(st.just("hpaEnabled"), st.sampled_from([True, False]), max_size=1)


@dataclass(frozen=True)
class Declared:
    """A version of a workflow: of a namespace that the caller sees, or of a foreign one."""

    namespace: str
    name: str
    version: str
    suspended: bool
    spec: Mapping[str, Any]

    def entry(self, number: int) -> CatalogEntry:
        document = manifest.workflow(self.name, version=self.version, **self.spec)
        document["spec"]["suspend"] = self.suspended
        return entry(document, namespace=f"{self.namespace}{number}")


def _spec(
    signals: list[str],
    environment: list[str],
    custom: dict[str, list[str]],
    detected: dict[str, bool],
    related: list[tuple[str, str]],
    mentioned: str,
    action: str,
    risk: str,
) -> dict[str, Any]:
    labels = {"severity": "*", "component": "*", "priority": "*", "signalType": signals, "environment": environment}
    return {
        "labels": labels,
        "customLabels": custom,
        "detectedLabels": detected,
        "related": [{"name": name, "relation": relation} for name, relation in related],
        "description": {"what": "It acts.", "whenToUse": "memory", "whenNotToUse": f"Rather take {mentioned} then."},
        "actionType": action,
        "riskLevel": risk,
        "steps": [{"name": "go", "command": "kubectl rollout restart deployment/web"}],
        "execution": {"engine": "job", "bundle": "registry.example/tools:1.0.0"},
    }


specs = st.builds(
    _spec,
    st.lists(st.sampled_from(SIGNALS), max_size=2, unique=True),
    st.lists(st.sampled_from(["production", "staging", "*"]), min_size=1, max_size=2),
    some_custom,
    some_detected,
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["escalatesTo", "requires", "rollbackOf", "supersedes"])),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(NAMES),
    st.sampled_from(ACTIONS),
    st.sampled_from(["low", "high"]),
)
catalogs = st.lists(
    st.builds(
        Declared,
        namespace=st.sampled_from("aabbc"),
        name=st.sampled_from(NAMES),
        version=st.sampled_from(["1.0.0", "2.0.0"]),
        suspended=st.sampled_from([False, False, False, True]),
        spec=specs,
    ),
    min_size=3,
    max_size=9,
    unique_by=lambda each: (each.namespace, each.name, each.version),
)
incidents = st.builds(
    replace,
    st.just(RequestContext(namespace="", name="oom", remediation_id="")),
    environment=st.sampled_from(["", "production", "staging"]),
    custom_labels=some_custom.map(
        lambda given: {key: tuple(values) for key, values in given.items() if "*" not in values}
    ),
    strict_keys=st.frozensets(st.sampled_from(["team", "region"]), max_size=1),
    detected_labels=some_detected.map(lambda given: {key: normalize_detected(value) for key, value in given.items()}),
)
