"""Settings of the operator: read once at the edge, from `FORMULARY_*`, then defaults.

What the catalog's settings name as well (database, model, shared namespace) means the same there and here.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from formulary_catalog.domain.notifications.receivers import Receiver, receivers_of
from formulary_catalog.domain.runs.measurement import OutcomeQueries, outcome_queries_of
from formulary_catalog.settings import (
    HARMLESS_ENVIRONMENTS,
    ConnectionSettings,
    ConsoleUrl,
    EmbeddingBackend,
    Execution,
    ExecutionMode,
)


class OperatorSettings(ConnectionSettings):
    """All settings of `formulary-operator`. Commas separate lists."""

    database_url: str = Field(default="", repr=False, description="PostgreSQL that the server reads too; required.")
    catalog_namespace: str = Field(
        default="formulary", description="The shared namespace, into which the starter catalog is applied."
    )
    embedding_model: str = Field(
        default="bundled",
        description="`bundled`, `all-MiniLM-L6-v2` (without its adapter), a directory, a hub id, or an endpoint: "
        "`tei+http://HOST:PORT`, `openai+https://HOST/v1#MODEL`.",
    )
    embedding_backend: EmbeddingBackend = Field(
        default="openvino",
        description="What runs a model that is no endpoint: `openvino`, or `sentence-transformers` (an extra).",
    )
    embedding_api_key: str = Field(default="", repr=False, description="Bearer token for that endpoint.")
    model_cache_dir: Path | None = Field(
        default=None, description="Directory of exported models; only models outside the BERT family have an export."
    )
    watch_namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Namespaces to watch; empty: all of them."
    )
    runbook_namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description='Namespaces whose ConfigMaps labelled `formulary.dev/runbooks: "true"` are runbooks; empty: none.',
    )
    prometheus_rules: bool = Field(
        default=False,
        description="Keep the alerts of PrometheusRule objects in the watched namespaces, to compare them with the "
        "catalog.",
    )
    workers: int = Field(default=4, ge=1, le=32, description="Objects that are reconciled at the same time.")
    execution: Execution = Field(
        default=ExecutionMode.AUTO,
        description="`off`: nothing is run; `approve`: each real run awaits a person; `auto`: the rules decide. The "
        "same as the server's.",
    )
    console_url: ConsoleUrl = Field(
        default="", description="Address at which people reach the server: Events of runs link to its console."
    )
    notifications: Annotated[tuple[Receiver, ...], NoDecode] = Field(
        default=(),
        repr=False,
        description="Receivers of notifications, in JSON ([alerts.md](../alerts.md#notifications)); empty: none.",
    )
    outcome_queries: Annotated[OutcomeQueries | None, NoDecode] = Field(
        default=None,
        repr=False,
        description="Prometheus and its queries that say whether a run helped, in JSON "
        "([invocation.md](../invocation.md#outcomes)); empty: none is asked.",
    )
    engines: Annotated[tuple[Literal["job", "tekton", "argo"], ...], NoDecode] = Field(
        default=("job",), description="Engines that may run workflows: `job`, `tekton`, `argo`."
    )
    default_image: str = Field(
        default="", description="Image that runs the steps of workflows of the engine `job` that name none."
    )
    run_as_user: int = Field(
        default=65532,
        ge=0,
        description="User and group of Jobs whose workflow names none in `runAsUser`; 0: the cluster assigns them.",
    )
    release_namespace: str = Field(
        default="",
        description="Namespace of Formulary itself, in which nothing is run; empty: that of the Lease.",
    )
    allowed_images: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Prefixes of images and bundles that may run, such as `registry.example/remedies/`; empty: any.",
    )
    require_digests: bool = Field(default=False, description="Run images and bundles only by their digest.")
    proven_authors: bool = Field(
        default=False, description="Refuse runs of workflows whose author the admission webhook did not see."
    )
    trusted_authors: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Authors whose workflows may run although they may run nothing themselves."
    )
    runs_namespace: str = Field(
        default="formulary-runs", description="Namespace of runs whose target has none, such as a Node."
    )
    tekton_bundles: bool = Field(
        default=False,
        description="Run Tekton bundles and Pipelines, which bring pods and Secrets of their own, without an approval "
        "for that.",
    )
    argo_strict: bool = Field(
        default=False,
        description="Argo runs with `templateReferencing: Strict` or `Secure`: leave the ServiceAccount and the "
        "security context to the WorkflowTemplate.",
    )
    argo_templates: bool = Field(
        default=False,
        description="Run WorkflowTemplates, which may name ServiceAccounts and Secrets of their own, without an "
        "approval for that.",
    )
    context_target: Literal["off", "kubernetes"] = Field(
        default="off",
        description="How runs that people create are constrained by labels of their `spec.target`: `off`, or "
        "`kubernetes`, as for agents.",
    )
    context_file: Path | None = Field(
        default=None,
        description="YAML file that maps labels of targets to constraints, the same as the server's; unset: the "
        "default mapping.",
    )
    strict_custom_labels: Annotated[frozenset[str], NoDecode] = Field(
        default=frozenset(), description="Custom label keys that a workflow must declare, for runs of an incident too."
    )
    harmless_environments: Annotated[frozenset[str], NoDecode] = Field(
        default=HARMLESS_ENVIRONMENTS,
        description="Environments that do not count as production, in any case. Every other one does, unknown "
        "spellings included.",
    )
    resync_seconds: float = Field(default=300, gt=0, description="Seconds between two comparisons with the cluster.")
    sweep_max_fraction: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Share of the served workflows that one sweep may remove; more is refused as suspicious. 1 allows "
        "all. Up to 20 workflows are always removed.",
    )
    context_retention_hours: float = Field(
        default=24, ge=0, description="How long the context of an AIAnalysis is kept after its object is deleted."
    )
    run_object_retention_hours: float = Field(
        default=168,
        ge=1,
        description="How long the WorkflowInvocation of a run that ended is kept, and the Secret with its input. Those "
        "that people created under a name of their own stay.",
    )
    run_retention_hours: float = Field(
        default=2160,
        ge=24,
        description="How long a run that ended, and the record of who created its object, are kept in the database "
        "after the object is deleted. The audit trail keeps the events.",
    )
    input_key_file: Path | None = Field(
        default=None,
        description="Keys that encrypt sensitive input of runs, one a line, each 32 bytes in base64; the first "
        "encrypts. "
        "The server has the same file. Unset: runs with such input are refused.",
    )
    audit_key_file: Path | None = Field(
        default=None,
        description="Ed25519 private key (PEM) that signs checkpoints of the audit trail; unset: they are not signed.",
    )
    audit_public_key_file: Path | None = Field(
        default=None,
        description="Public keys (PEM) that checkpoints may be signed by; unset: that of the private key.",
    )
    audit_published: str = Field(
        default="",
        repr=False,
        description="File or URL (GET, PUT) where checkpoints of the audit trail are published, outside the database.",
    )
    audit_config_map: str = Field(
        default="",
        description="ConfigMap in the namespace of the Lease where checkpoints are published; it must exist. Empty: "
        "none.",
    )
    checkpoint_seconds: float = Field(
        default=60,
        gt=0,
        description="Seconds between two checkpoints of the audit trail, which cover every event before.",
    )
    verify_seconds: float = Field(
        default=6 * 3600, ge=0, description="Seconds between two verifications of the whole audit trail; 0 for none."
    )
    health_host: str = Field(default="127.0.0.1", description="Address of `/healthz`, `/readyz` and `/metrics`.")
    health_port: int = Field(
        default=8081, ge=0, le=65535, description="Port of the probes and metrics; 0 turns them off."
    )
    lease_namespace: str = Field(
        default="", description="Namespace of the Lease that elects the leader; empty: no election, run one replica."
    )
    lease_name: str = Field(default="formulary-operator", description="Name of that Lease.")
    pod_name: str = Field(default="", description="Identity in the Lease; empty: host name and process id.")
    operator_user: str = Field(
        default="",
        description="User of the operator, such as `system:serviceaccount:formulary:formulary-operator`. "
        "Only this user may request runs in the name of others.",
    )
    webhook_host: str = Field(default="0.0.0.0", description="Address of the admission webhook.")
    webhook_port: int = Field(default=0, ge=0, le=65535, description="Port of the admission webhook; 0 turns it off.")
    webhook_cert_dir: Path | None = Field(
        default=None, description="Directory with `tls.crt` and `tls.key`; empty: a self-signed certificate."
    )
    webhook_client_ca_file: Path | None = Field(
        default=None,
        description="CA certificates (PEM) of the API server's client certificate; other clients are rejected. Unset: "
        "the secret path alone authenticates the API server.",
    )
    webhook_secret: str = Field(
        default="formulary-webhook", description="Secret that holds the self-signed certificate."
    )
    webhook_service: str = Field(default="formulary-webhook", description="Service that the API server calls.")
    webhook_configuration: str = Field(
        default="formulary",
        description="ValidatingWebhookConfiguration that receives the secret paths and the self-signed CA.",
    )

    @field_validator(
        "watch_namespaces",
        "runbook_namespaces",
        "engines",
        "allowed_images",
        "trusted_authors",
        "strict_custom_labels",
        "harmless_environments",
        mode="before",
    )
    @classmethod
    def _listed(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("notifications", mode="before")
    @classmethod
    def _receivers(cls, value: object) -> object:
        return receivers_of(value)

    @field_validator("outcome_queries", mode="before")
    @classmethod
    def _queries(cls, value: object) -> object:
        return outcome_queries_of(value)
