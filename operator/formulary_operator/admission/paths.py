"""The secret paths at which the API server asks: that it knows them proves that it is the API server.

Each webhook of the configuration has its own, which follows from the token; it says nothing about the token or the
other paths. All have `failurePolicy: Ignore`: under `Fail` the API server shows the address to each client whose call
fails.
"""

import hmac

from formulary_operator.api.names import APPROVALS, CONTRACTS, INVOCATIONS, WORKFLOWS, Resource

PREFIX = "/validate"

ASKED: dict[str, tuple[Resource, ...]] = {
    "workflows.formulary.dev": (WORKFLOWS,),
    "governance.formulary.dev": (CONTRACTS, INVOCATIONS, APPROVALS),
}
"""What each webhook of the chart's configuration asks about."""


def path_of(webhook: str, *, token: str) -> str:
    """The path of one webhook of the configuration."""
    return f"{PREFIX}/{_secret(webhook, token=token)}"


def asked_at(secret: str, *, token: str) -> tuple[Resource, ...]:
    """What may be asked about at the path that ends so; nothing at a wrong one."""
    for webhook, resources in ASKED.items():
        if hmac.compare_digest(_secret(webhook, token=token).encode(), secret.encode()):
            return resources
    return ()


def _secret(webhook: str, *, token: str) -> str:
    return hmac.digest(token.encode(), webhook.encode(), "sha256").hex()
