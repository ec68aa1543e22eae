"""What a load reports while it runs and when it is done."""

from collections.abc import Callable
from dataclasses import dataclass, field

from formulary_catalog.loading.documents import Rejection

LoadingProgress = Callable[[str, int, int], None]
"""Called with the phase (`embedding` or `loading`), how much of it is done and how much there is; from any thread."""


def silent(phase: str, done: int, total: int) -> None:
    """For callers who show no progress."""


@dataclass(slots=True, kw_only=True)
class LoadReport:
    """What one load did. Workflows are named `namespace/name@version`, removed ones, contexts, contracts and
    sources of alerts `namespace/name`.

    `contexts`, `contracts` and `sources` count those described by the files, `embedded` the texts for which a vector
    was made, `ignored` the documents of other kinds. `unembedded` says how many workflows have no vector because the
    model failed, and why; it is empty where none has to wait for one.
    """

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    changed_contexts: list[str] = field(default_factory=list)
    removed_contexts: list[str] = field(default_factory=list)
    contexts: int = 0
    changed_contracts: list[str] = field(default_factory=list)
    removed_contracts: list[str] = field(default_factory=list)
    contracts: int = 0
    changed_sources: list[str] = field(default_factory=list)
    removed_sources: list[str] = field(default_factory=list)
    sources: int = 0
    embedded: int = 0
    unembedded: str = ""
    ignored: int = 0
    rejections: list[Rejection] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether the catalog differs from before."""
        workflows = self.created or self.updated or self.removed
        contexts = self.changed_contexts or self.removed_contexts
        contracts = self.changed_contracts or self.removed_contracts
        return bool(workflows or contexts or contracts or self.changed_sources or self.removed_sources)
