"""Where a remote embedding model is, and the two protocols that such endpoints speak."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self
from urllib.parse import urlsplit

from formulary_catalog.errors import EmbedderUnavailable

EXAMPLES = "tei+http://HOST:PORT or openai+https://HOST/v1#MODEL"

_UNVERSIONED = "unversioned"
_ADDRESS = re.compile(r"(?P<dialect>tei|openai)\+(?P<url>https?://.+)", re.IGNORECASE)


class Dialect(StrEnum):
    """How an endpoint is spoken to."""

    TEI = "tei"
    """Text Embeddings Inference: `POST /embed`, and `GET /info` for which model it is."""
    OPENAI = "openai"
    """The embeddings of the OpenAI API, which many servers offer: `POST /embeddings` below `/v1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A remote model as the setting names it. `name` and `revision` are empty where it does not say."""

    dialect: Dialect
    url: str
    name: str = ""
    revision: str = ""

    @classmethod
    def parse(cls, model: str) -> Self:
        """The endpoint of `tei+http://host:port[#name@revision]` or `openai+https://host/v1#name[@revision]`.

        Raises `EmbedderUnavailable` if it is neither, or holds a password or a query.
        """
        address = _ADDRESS.fullmatch(model)
        try:
            parts = urlsplit(address["url"] if address else "")
            is_whole = bool(address and parts.hostname and parts.port != 0)
        except ValueError:  # a port that is no number, a bracket that is not closed
            is_whole = False
        # What is wrong with it is not shown where it may hold a secret.
        if not address or not is_whole:
            raise EmbedderUnavailable(f"The address of the embedding endpoint is not of the form {EXAMPLES}.")
        if parts.username is not None or parts.query:
            raise EmbedderUnavailable(
                "The address of the embedding endpoint may hold no user, password or query; "
                "give the key as FORMULARY_EMBEDDING_API_KEY."
            )
        dialect = Dialect(address["dialect"].lower())
        name, _, revision = parts.fragment.partition("@")
        if dialect is Dialect.OPENAI and not name:
            raise EmbedderUnavailable(
                f"The endpoint {parts.netloc} may serve several models; name one behind its address, as in {EXAMPLES}."
            )
        return cls(
            dialect=dialect,
            url=f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}",
            name=name,
            revision=revision,
        )

    @property
    def path(self) -> str:
        """What texts are sent to, below the URL."""
        return "/embed" if self.dialect is Dialect.TEI else "/embeddings"

    def question(self, texts: Sequence[str], *, dimensions: int | None = None) -> dict[str, Any]:
        """The body that asks for the vectors of these texts; `dimensions` is for models that can shorten theirs."""
        if self.dialect is Dialect.TEI:
            return {"inputs": list(texts), "normalize": True, "truncate": True}
        shortened = {} if dimensions is None else {"dimensions": dimensions}
        return {"model": self.name, "input": list(texts), "encoding_format": "float", **shortened}

    def rows(self, answer: Any) -> list[Any]:
        """The vectors in such an answer, in the order of the texts; LookupError or TypeError if it is none."""
        if self.dialect is Dialect.TEI:
            return list(answer)
        data = answer["data"]
        rows = {item["index"]: item["embedding"] for item in data}
        return [rows[index] for index in range(len(data))]

    def model_id(self, info: Any) -> str:
        """`name@revision` of the model; `info` is what Text Embeddings Inference says about itself, else None.

        Raises `EmbedderUnavailable` if a revision is known to nobody.
        """
        if self.dialect is Dialect.OPENAI:
            return f"{self.name}@{self.revision or _UNVERSIONED}"
        given = info if isinstance(info, dict) else {}
        name = self.name or str(given.get("model_id") or "")
        revision = self.revision or _revision(given)
        if not name or not revision:
            raise EmbedderUnavailable(
                f"The endpoint {self.url} does not say which revision of which model it serves; "
                f"pin it at the end of its address, as in tei+{self.url}#NAME@REVISION."
            )
        return f"{name}@{revision}"

    def most_texts(self, info: Any) -> int | None:
        """How many texts it takes at a time; None if it does not say."""
        most = info.get("max_client_batch_size") if isinstance(info, dict) else None
        return most if isinstance(most, int) and most > 0 else None


def _revision(info: dict[str, Any]) -> str:
    """The commit of the model and how it pools: both decide the vectors."""
    sha, kind = info.get("model_sha"), info.get("model_type")
    if not sha:
        return ""
    embedding = kind.get("embedding") if isinstance(kind, dict) else None
    pooling = embedding.get("pooling") if isinstance(embedding, dict) else None
    return f"{str(sha)[:12]}-{pooling}" if pooling else str(sha)[:12]


def is_remote(model: str) -> bool:
    """Whether the model setting is the address of an endpoint, right or wrong, rather than a model to run here."""
    return "://" in model
