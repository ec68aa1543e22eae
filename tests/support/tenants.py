"""A catalog of several namespaces with incidents, for tests of who may see what."""

from pathlib import Path
from typing import Any

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.search.request import ContextReference
from support.access import Rights
from support.manifest import analysis, text, workflow

SHARED, SHOP, TARGET, BANK = "formulary", "shop", "shop-apps", "bank"
"""The shared namespace; that of an incident and that of its target; one that has nothing to do with either."""
SHOP_INCIDENT = {"X-Remediation-Id": "rr-shop"}
BANK_INCIDENT = {"X-Remediation-Id": "rr-bank"}
COPIED_INCIDENT = {"X-Remediation-Id": "rr-copied"}
"""An id that an incident of the shop has, and one of the bank too, with the same labels."""
SECRET = "vault-team"
"""The value of a custom label, which nobody may ever read."""

IN_ALPHA = ContextReference(remediation_id="rr-alpha")
ALICE = Caller(name="alice", access=Rights(see={"alpha"}, use={"alpha"}))
"""The incident of `alpha`, which is a tenant beside `beta`, and who may see no more than that."""


def write_manifests(directory: Path) -> Path:
    """A file with one workflow in each namespace, and the incidents `rr-shop`, `rr-bank` and twice `rr-copied`."""
    workflows = [_in(namespace, workflow(f"{namespace}-restart")) for namespace in (SHARED, SHOP, TARGET, BANK)]
    shop = analysis("oom", remediation_id="rr-shop", labels={"team": [SECRET]})
    shop["spec"]["analysisRequest"]["signalContext"]["targetResource"] = {"namespace": TARGET}
    bank = _in(BANK, analysis("oom", remediation_id="rr-bank", labels={"team": [SECRET]}))
    file = directory / "tenants.yaml"
    original = analysis("copied", remediation_id="rr-copied", labels={"team": [SECRET]})
    incidents = [shop, bank, original, _in(BANK, original)]
    file.write_text(text(*workflows, *incidents), encoding="utf-8")
    return file


def _in(namespace: str, document: dict[str, Any]) -> dict[str, Any]:
    return document | {"metadata": document["metadata"] | {"namespace": namespace}}
