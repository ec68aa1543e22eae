"""What the catalog accepts, the CRDs let through whole: nothing is refused and nothing pruned."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.entry import catalog_entry, incident_context
from formulary_operator.api.crds import CRDS
from support import manifest
from support.structural import validator

Strategy = st.SearchStrategy[Any]

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.text(characters, max_size=6)
filled = st.builds("{}{}{}".format, texts, st.text(characters, min_size=1, max_size=6).filter(str.strip), texts)
anything = st.recursive(
    st.booleans() | st.integers() | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=4
)


def _one_or_many(values: Strategy, *, least: int = 0) -> Strategy:
    return values | st.lists(values, min_size=least, max_size=3)


def _object(*, required: Mapping[Any, Strategy], optional: Mapping[Any, Strategy] = MappingProxyType({})) -> Strategy:
    return st.fixed_dictionaries(dict(required), optional=dict(optional))


labels, required_labels = _one_or_many(filled), _one_or_many(filled, least=1)
keys = st.text(characters, min_size=1, max_size=6)
custom_labels = st.dictionaries(keys, _one_or_many(texts), max_size=3)
steps = st.lists(_object(required={"name": filled}, optional={"description": texts, "command": texts}), max_size=2)
references = st.lists(_object(required={"name": filled}), max_size=2)
parameters = st.lists(
    _object(
        required={
            "name": filled,
            "type": st.sampled_from(["string", "integer", "boolean", "array", "float"]),
            "required": st.booleans(),
            "description": filled,
        },
        optional={
            "enum": st.lists(anything, max_size=2),
            "pattern": texts,
            "minimum": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            "maximum": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            "default": anything,
            "dependsOn": labels,
        },
    ),
    max_size=2,
)
specs = _object(
    required={
        "version": st.from_regex(
            r"v?(0|[1-9][0-9]{0,3})\.[1-9]\.0(-[a-z][a-z0-9]{0,3}(\.0)?)?(\+[0-9a-z]{1,3})?", fullmatch=True
        ),
        "description": _object(
            required={"what": filled, "whenToUse": filled}, optional={"whenNotToUse": texts, "preconditions": texts}
        ),
        "actionType": st.from_regex(r"[A-Z][A-Za-z0-9]{0,9}", fullmatch=True),
        "labels": _object(
            required=dict.fromkeys(["severity", "environment", "component", "priority"], required_labels),
            optional=dict.fromkeys(["signalType", "riskTolerance", "businessCategory", "cluster"], labels),
        ),
        "execution": _object(
            required={},
            optional={
                "engine": st.sampled_from(["tekton", "job", "ansible", "argo"]),
                "bundle": texts,
                "bundleDigest": texts,
                "engineConfig": anything,
                "serviceAccountName": texts,
            },
        ),
    },
    optional={
        "title": texts,
        "customLabels": custom_labels,
        "detectedLabels": st.dictionaries(keys, st.booleans() | texts, max_size=3),
        "keywords": labels,
        "dependencies": _object(required={}, optional={"secrets": references, "configMaps": references}),
        "maintainers": st.lists(
            _object(
                required={
                    "name": filled,
                    "email": st.from_regex(r"\s?[^@\s]+@[^@\s]+\.[^@\s]+\s?", fullmatch=True, alphabet=characters),
                }
            ),
            max_size=2,
        ),
        "parameters": parameters,
        "rollbackParameters": parameters,
        "steps": steps,
        "prerequisites": labels,
        "rollbackSteps": steps,
        "estimatedDuration": texts,
        "riskLevel": st.sampled_from(["low", "medium", "high"]),
        "related": st.lists(
            _object(
                required={
                    "name": filled,
                    "relation": st.sampled_from(["escalatesTo", "supersedes", "rollbackOf", "requires"]),
                }
            ),
            max_size=2,
        ),
        "verification": _object(
            required={},
            optional={
                "stabilization": st.sampled_from(["0s", "90s", "5m", "6h"]),
                "window": st.sampled_from(["60s", "90s", "5m", "6h"]),
                "query": st.sampled_from(["few-errors", "q"]),
            },
        ),
        "suspend": st.booleans(),
    },
)
observed = st.dictionaries(texts, anything, max_size=2)
kubernetes_contexts = _object(
    required={}, optional={"customLabels": custom_labels, "detectedLabels": observed, "ownerChain": anything}
)
signals = _object(
    required={},
    optional={
        **dict.fromkeys(["environment", "businessPriority", "severity", "signalName", "cluster", "fingerprint"], texts),
        "targetResource": _object(
            required={}, optional=dict.fromkeys(["kind", "name", "namespace", "apiVersion", "uid"], texts)
        ),
        "enrichmentResults": _object(
            required={},
            optional={
                "kubernetesContext": kubernetes_contexts,
                "customLabels": custom_labels,
                "detectedLabels": observed,
                "future": anything,
            },
        ),
    },
)


WORKFLOW = validator(CRDS["kubernaut.ai_remediationworkflows.yaml"].definition(), "spec")
ANALYSIS = validator(CRDS["kubernaut.ai_aianalyses.yaml"].definition(), "spec")


@given(spec=specs)
def test_a_workflow_that_the_catalog_accepts_is_let_through_whole(spec: dict[str, Any]) -> None:
    document = manifest.workflow("a") | {"spec": spec}
    catalog_entry(document, source="test", default_namespace="formulary")
    WORKFLOW.validate(spec)


@given(signal=signals, remediation_id=st.text(characters, min_size=1, max_size=9), future=anything)
def test_an_incident_that_the_catalog_accepts_is_let_through_whole(
    signal: dict[str, Any], remediation_id: str, future: object
) -> None:
    document = manifest.analysis("a", remediation_id="rr")
    document["spec"] = {
        "remediationId": remediation_id,
        "analysisRequest": {"signalContext": signal, "future": future},
        "future": future,
    }
    incident_context(document, source="test", default_namespace="formulary")
    ANALYSIS.validate(document["spec"])
