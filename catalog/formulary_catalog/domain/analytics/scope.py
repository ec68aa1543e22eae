"""What the views of `insight` show to one caller, and the proof by which the database believes it.

`services/analytics` makes the scope from the caller's rights, `store/analytics/connection` says it in the
transaction. The proof keeps a statement from choosing another one: a caller of `set_config` can set what the views
read.
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field

ALL = "*"
"""Stands for every name, as in the views."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticsScope:
    """Namespaces by right, None for all: whose workflows are visible, whose incidents may be used, whose runs be read.

    With an incident, `versions` are the ids of what it allows, and of searches, selections and alerts only its own are
    visible. The caller's own rows are visible to it always. `suspended`: workflows that are suspended are visible too,
    as they are to people; to agents they do not exist.
    """

    caller: str
    namespaces: frozenset[str] | None
    incidents: frozenset[str] | None
    runs: frozenset[str] | None
    versions: frozenset[str] | None = field(default=None, repr=False)
    remediation_id: str = ""
    suspended: bool = False

    def settings(self, *, key: bytes, transaction: str) -> dict[str, str]:
        """What one transaction has to set for the views: the proof, a space, and JSON in ASCII; apart, the versions,
        whose digest is in that: they may be many, and the scope is read often."""
        versions = "" if self.versions is None else ",".join(sorted(self.versions))
        digest = f"sha256:{hashlib.sha256(versions.encode()).hexdigest()}"
        said = {
            "transaction": transaction,
            "caller": self.caller,
            "namespaces": _names(self.namespaces),
            "incidents": _names(self.incidents),
            "runs": _names(self.runs),
            "versions": [ALL if self.versions is None else digest],
            "remediation_id": self.remediation_id,
            "suspended": self.suspended,
        }
        content = json.dumps(said, separators=(",", ":"))
        inner = hashlib.sha256(key + content.encode()).digest()
        proof = hashlib.sha256(key + inner).hexdigest()
        return {"formulary.insight": f"{proof} {content}", "formulary.insight_versions": versions}


def _names(names: Collection[str] | None) -> list[str]:
    return [ALL] if names is None else sorted(names)
