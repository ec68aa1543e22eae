"""Settings: read once at the edge, from flags, then `FORMULARY_*`, then defaults (DESIGN section 11)."""

from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from formulary_catalog.errors import InvalidInput


class ContextPolicy(StrEnum):
    """Whether calls of agents must belong to an incident."""

    REQUIRED = "required"
    OPTIONAL = "optional"


class ExecutionMode(StrEnum):
    """What becomes of a real run that is asked for."""

    OFF = "off"
    APPROVE = "approve"
    AUTO = "auto"


def _execution_mode(value: object) -> object:
    """Earlier releases knew only whether workflows are run: true is `auto`, false is `off`."""
    words = {"true": ExecutionMode.AUTO, "1": ExecutionMode.AUTO, "false": ExecutionMode.OFF, "0": ExecutionMode.OFF}
    return words.get(str(value).strip().lower(), value)


Execution = Annotated[ExecutionMode, BeforeValidator(_execution_mode)]


class LabelSpelling(StrEnum):
    """How label parameters are listed to models; calls are accepted in both spellings."""

    DOTTED = "dotted"
    SNAKE = "snake"


class Toolset(StrEnum):
    """The tools of the MCP server by what they are for."""

    SEARCH = "search"
    RUNS = "runs"
    GOVERNANCE = "governance"
    CATALOG = "catalog"
    KNOWLEDGE = "knowledge"
    ANALYTICS = "analytics"
    APPROVALS = "approvals"


LISTED_TOOLSETS = frozenset({Toolset.SEARCH, Toolset.RUNS})
"""What is listed where nobody says what to list."""


def toolsets_of(text: str, *, among: Collection[Toolset] = tuple(Toolset)) -> frozenset[Toolset]:
    """The toolsets that a list with commas names; empty for none.

    Raises:
        InvalidInput: one of them is not among these; the message names it and them.
    """
    offered = {each.value: each for each in Toolset if each in among}
    named = [part.strip().lower() for part in text.split(",") if part.strip()]
    if unknown := next((name for name in named if name not in offered), None):
        raise InvalidInput(
            f"toolset {unknown[:60]!r} is not offered; give some of {', '.join(offered)}", field="toolsets"
        )
    return frozenset(offered[name] for name in named)


HARMLESS_ENVIRONMENTS = frozenset("dev development test testing qa staging sandbox preview".split())
"""Environments that do not count as production where no others are given."""
EmbeddingBackend = Literal["openvino", "sentence-transformers"]
"""What runs an embedding model that is on disk."""


def _server_address(url: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        raise PydanticCustomError("no_address", "Is no address of a server; give one such as https://formulary.example")
    return url.rstrip("/").removesuffix("/console")


ConsoleUrl = Annotated[str, AfterValidator(_server_address)]
"""The address of the server as people reach it, without the path of the console; empty if it is not known."""


class ConnectionSettings(BaseSettings):
    """What a server lets strangers take of it, before it knows who they are."""

    model_config = SettingsConfigDict(env_prefix="FORMULARY_", env_ignore_empty=True, extra="ignore", frozen=True)

    max_connections: int = Field(
        default=1000,
        ge=32,
        le=100_000,
        description="Open connections of a server; fewer if the process may not open as many files.",
    )
    max_connections_per_address: int = Field(
        default=250,
        ge=8,
        le=100_000,
        description="Open connections of one address; raise it if all clients come through one proxy.",
    )
    max_header_bytes: int = Field(
        default=32 * 1024, ge=4096, le=1024**2, description="Largest size of the headers of a request, in bytes."
    )
    max_headers: int = Field(default=100, ge=16, le=1000, description="Headers that a request may have.")
    request_seconds: float = Field(
        default=15,
        gt=0,
        le=600,
        description="Seconds in which a client must send its request, and read the answer.",
    )


class Settings(ConnectionSettings):
    """All settings of the catalog. Commas separate lists."""

    database_url: str = Field(default="", repr=False, description="PostgreSQL to use; empty: an embedded one.")
    analytics_database_url: str = Field(
        default="",
        repr=False,
        description="The same database as the role `formulary_insight`, for SQL of callers; empty: no analytics, but "
        "for an embedded one.",
    )
    analytics_per_minute: int = Field(
        default=120, ge=1, le=10_000, description="Statements of SQL that one caller may run within a minute."
    )
    data_dir: Path | None = Field(default=None, description="Directory of the embedded PostgreSQL.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    tls_dir: Path | None = Field(
        default=None,
        description="Directory with `tls.crt` and `tls.key`, with which `serve` answers HTTPS; unset: plain HTTP.",
    )
    catalog_namespace: str = Field(
        default="formulary", description="The shared namespace; also that of manifests which name none."
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
    embedding_timeout_ms: int = Field(
        default=300, ge=10, le=10_000, description="How long a query waits for that endpoint, in milliseconds."
    )
    model_cache_dir: Path | None = Field(
        default=None, description="Directory of exported models; only models outside the BERT family have an export."
    )
    request_context: ContextPolicy | None = Field(
        default=None, description="`required` or `optional`; unset: optional alone, required in a cluster."
    )
    context_target: str = Field(
        default="off",
        description="How the targets of calls are read, for constraints from their labels: `off`, or `kubernetes`. "
        "`up` and `stdio` then read the manifests.",
    )
    context_file: Path | None = Field(
        default=None, description="YAML file that maps labels of targets to constraints; unset: the default mapping."
    )
    strict_custom_labels: Annotated[frozenset[str], NoDecode] = Field(
        default=frozenset(), description="Custom label keys that a workflow must declare."
    )
    label_parameters: LabelSpelling = Field(
        default=LabelSpelling.DOTTED, description="Spelling of label parameters in the tool list."
    )
    toolsets: Annotated[frozenset[Toolset], NoDecode] = Field(
        default=frozenset(),
        description="Toolsets of the MCP server that are offered, and listed where a client does not choose: `search`, "
        "`runs`, `governance`, `catalog`, `knowledge`, `analytics`, `approvals`. Unset: all are offered, and the first "
        "two listed.",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Host names accepted besides the loopback ones, such as the Service's."
    )
    insecure: bool = Field(default=False, description="Listen beyond loopback without authentication.")
    authentication: str = Field(
        default="none", description="Authentication of callers of `serve`: `none`, or `kubernetes` tokens."
    )
    token_audience: str = Field(
        default="formulary", min_length=1, description="The audience that a token must be issued for."
    )
    oidc_issuer: str = Field(
        default="", description="OpenID issuer of people's ID tokens, which the API server must trust."
    )
    oidc_client_id: str = Field(default="", description="Client that these ID tokens must be issued for.")
    oidc_scope: str = Field(
        default="openid",
        pattern=r"^[!#-\[\]-~]+( [!#-\[\]-~]+)*$",
        description="Scopes that MCP clients request from the issuer, with spaces between them.",
    )
    console_proxy_secret_file: Path | None = Field(
        default=None,
        description="File with the secret of a trusted proxy, whose headers then name the user and groups at the "
        "console; unset: such headers are ignored.",
    )
    token: str = Field(default="", repr=False, description="Bearer token that commands send to the server they ask.")
    pool_size: int = Field(default=10, ge=9, le=100, description="Database connections of one process.")
    calls_at_once: int = Field(
        default=8,
        ge=8,
        le=99,
        description="Calls in progress in one process; fewer than it has database connections.",
    )
    calls_waiting: int = Field(
        default=64, ge=0, le=10_000, description="Calls that may wait for a slot; more are rejected at once."
    )
    call_wait_seconds: float = Field(
        default=5.0, gt=0, le=60, description="How long a call waits for a slot before it is rejected."
    )
    invocations_per_hour: int = Field(
        default=0, ge=0, description="Real runs that one caller may ask for within an hour; 0 for any number."
    )
    concurrent_invocations: int = Field(
        default=0, ge=0, description="Runs of one caller that may be under way at a time; 0 for any number."
    )
    dry_runs_per_hour: int = Field(
        default=120, ge=0, description="Dry runs that one caller may ask for within an hour; 0 for any number."
    )
    max_timeout_ms: int = Field(
        default=0, ge=0, le=43_200_000, description="Longest timeout of a run in milliseconds; 0 for twelve hours."
    )
    harmless_environments: Annotated[frozenset[str], NoDecode] = Field(
        default=HARMLESS_ENVIRONMENTS,
        description="Environments that do not count as production, in any case. Every other one does, unknown "
        "spellings included.",
    )
    execution: Execution = Field(
        default=ExecutionMode.AUTO,
        description="`off`: only dry runs, each of which says how a person would run it; `approve`: each real run "
        "awaits a person; `auto`: the rules decide.",
    )
    runs_namespace: str = Field(
        default="formulary-runs", description="Namespace of runs whose target has none, such as a Node."
    )
    release_namespace: str = Field(
        default="",
        description="Namespace of Formulary itself, in which nothing is run, as in `kube-*`; empty: it has none.",
    )
    tekton_bundles: bool = Field(
        default=False,
        description="Run Tekton bundles and Pipelines, which bring pods and Secrets of their own, without an approval "
        "for that.",
    )
    argo_templates: bool = Field(
        default=False,
        description="Run WorkflowTemplates, which may name ServiceAccounts and Secrets of their own, without an "
        "approval for that.",
    )
    audit_key_file: Path | None = Field(
        default=None,
        description="Ed25519 private key (PEM) that signs checkpoints of the audit trail; unset: they are not signed.",
    )
    audit_public_key_file: Path | None = Field(
        default=None,
        description="Public keys (PEM) that checkpoints may be signed by; unset: that of the private key.",
    )
    console_url: ConsoleUrl = Field(
        default="",
        description="Address at which people reach the server, such as `https://formulary.example`: `trace show` and "
        "notes of runs link to its console. Unset: nothing is linked.",
    )
    audit_published: str = Field(
        default="",
        repr=False,
        description="File or URL with published checkpoints of the audit trail: `up` publishes there, `trace "
        "verify` and `doctor` compare with it.",
    )
    input_key_file: Path | None = Field(
        default=None,
        description="Keys that encrypt sensitive input of runs, one a line, each 32 bytes in base64; the first "
        "encrypts. "
        "Unset: the embedded database has a key file of its own; elsewhere such runs are refused.",
    )
    context_wait_seconds: float = Field(
        default=2.0, ge=0, le=2, description="How long a call waits for a context that was written a moment ago."
    )

    @field_validator("calls_at_once")
    @classmethod
    def _fewer_than_connections(cls, calls: int, info: ValidationInfo) -> int:
        """A call that waits for a connection spends the time in which it must be answered."""
        connections = info.data.get("pool_size")
        if connections is not None and calls >= connections:
            raise PydanticCustomError(
                "too_few_connections",
                "Calls at once must be fewer than the {connections} connections of FORMULARY_POOL_SIZE; lower them, or "
                "raise FORMULARY_POOL_SIZE",
                {"connections": connections},
            )
        return calls

    @field_validator("strict_custom_labels", "harmless_environments", mode="before")
    @classmethod
    def _keys(cls, value: object) -> object:
        return frozenset(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("toolsets", mode="before")
    @classmethod
    def _toolsets(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return toolsets_of(value)
        except InvalidInput as error:
            raise PydanticCustomError("unknown_toolset", "{problem}", {"problem": str(error)}) from None

    @property
    def offered_toolsets(self) -> frozenset[Toolset]:
        """The toolsets whose tools are answered."""
        return self.toolsets or frozenset(Toolset)

    @property
    def listed_toolsets(self) -> frozenset[Toolset]:
        """The toolsets that are listed where a client does not choose."""
        return self.toolsets or LISTED_TOOLSETS

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _hosts(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
