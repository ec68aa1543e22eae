"""What MCP clients read to sign in: `/mcp` as a resource that an OpenID provider protects (RFC 9728, DESIGN section 9).

`edges.http.middleware` answers with it where an issuer is set. Some clients drop the header that they were given once
they see it: for them `/mcp/token` is the same server and says nothing of it.
"""

from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from formulary_catalog.edges.calls.error_replies import MCP_PATH, WELL_KNOWN

_METADATA_PATH = f"{WELL_KNOWN}oauth-protected-resource"
METADATA_PATHS = frozenset({_METADATA_PATH, f"{_METADATA_PATH}{MCP_PATH}"})
FIXED_HEADER_PATH = f"{MCP_PATH}/token"
"""Of clients that send one header always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """The resource at `address`, empty where each request says by its Host; clients ask the issuer for `scope`."""

    issuer: str
    scope: str
    address: str

    def metadata(self, scope: Scope) -> dict[str, Any]:
        """The document of RFC 9728."""
        return {
            "resource": f"{self._base(scope)}{MCP_PATH}",
            "authorization_servers": [self.issuer],
            "scopes_supported": self.scope.split(),
            "bearer_methods_supported": ["header"],
            "resource_name": "Formulary",
        }

    def challenge(self, scope: Scope) -> str:
        """What a 401 says besides why."""
        return f'resource_metadata="{self._base(scope)}{_METADATA_PATH}{MCP_PATH}", scope="{self.scope}"'

    def _base(self, scope: Scope) -> str:
        """The edge has checked the Host."""
        return self.address or f"{scope['scheme']}://{Headers(scope=scope).get('host', '')}"
