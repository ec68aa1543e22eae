"""Replaces the operator where there is no cluster, for `formulary demo`.

It decides on runs as the operator does, on the same rows and by the same rules: a run that needs an approval waits for
it, with what would run and its digest. It creates nothing, and says so in the record of the run.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.run import Invocation, Phase
from formulary_catalog.domain.targets.reference import TargetReference
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.services.runs.preparation import engine_builder
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.executors import ExecutorWriter
from formulary_catalog.store.runs.lifecycle import RunWriter

ENDED = "approved, but not run: no cluster is connected, so no Job was created"
_NAME = "demo"
_POLL_SECONDS = 0.1


async def stand_in(writing: Database, *, targets: TargetContexts, caller: Caller, shared_namespace: str) -> None:
    """Bring runs on until cancelled; targets are read as `caller` may.

    Raises:
        Unavailable: the database does not answer.
    """
    runs = RunWriter(writing, shared_namespace=shared_namespace)
    await ExecutorWriter(writing).announce(name=_NAME, engines=["job"])
    while True:
        for active in await runs.active():
            run = await runs.find(active.id)
            assert run is not None
            begun = await runs.begin(
                run.id, content=_content(run), target=(await _context(run, targets=targets, caller=caller),)
            )
            if begun is not None and begun.phase is Phase.RUNNING:
                await runs.cancel(run.id, message=ENDED)
        await asyncio.sleep(_POLL_SECONDS)


async def _context(run: Invocation, *, targets: TargetContexts, caller: Caller) -> RequestContext:
    target = run.target
    reference = TargetReference(namespace=target.namespace, kind=target.kind, name=target.name)
    return await targets.context_of(reference, caller=caller)


def _content(run: Invocation) -> Mapping[str, Any]:
    """What would run, as a person reads it who decides; the digest is that of the Job."""
    entry = catalog_entry(run.document, source="snapshot", default_namespace=run.workflow_namespace)
    workflow = entry.workflow
    manifest = engine_builder(workflow.spec.execution.engine)(
        invocation_id=run.id,
        namespace=run.namespace,
        workflow=workflow,
        version_id=run.version_id,
        values=run.input,
        sensitive=frozenset(),
        target=run.target,
        remediation_id=run.remediation_id,
        timeout_seconds=run.timeout_seconds,
    )
    return {
        "digest": f"sha256:{hashlib.sha256(canonical_json(manifest).encode()).hexdigest()}",
        "versionId": run.version_id,
        "kind": manifest["kind"],
        "parameters": dict(run.input),
        "steps": [{"name": step.name, "command": step.command} for step in workflow.spec.steps],
        "manifest": manifest,
    }
