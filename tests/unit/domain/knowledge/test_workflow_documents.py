"""The sections of a workflow as documents."""

import hashlib
import json

from formulary_catalog.domain.knowledge.documents import DOCUMENTS_REVISION
from support.filling import entry
from support.manifest import workflow

FULL = workflow(
    "drain-node",
    what="Cordons a NodeNotReady node.",
    customLabels={"team": "vault-team"},
    prerequisites=["kubectl 1.30", "a /var/lib/kubelet mount"],
    steps=[{"name": "cordon", "description": "No new pods.", "command": "kubectl cordon $NODE\nkubectl get nodes"}],
    rollbackSteps=[{"name": "uncordon"}],
)


def test_each_section_that_says_something_is_a_document_in_reading_order() -> None:
    full = entry(
        {**FULL, "spec": {**FULL["spec"], "description": {**FULL["spec"]["description"], "whenNotToUse": " "}}}
    )
    documents = full.documents
    assert [each.doc_id for each in documents] == [
        f"{full.version_id}#{name}"
        for name in ("description", "when_to_use", "preconditions", "steps", "rollback_steps")
    ]
    assert {each.source_file for each in documents} == {"workflow://formulary/drain-node@1.0.0"}
    assert documents[2].text == "- kubectl 1.30\n- a /var/lib/kubelet mount"
    assert documents[3].text == "1. cordon: No new pods.\n\n        kubectl cordon $NODE\n        kubectl get nodes"
    assert "vault-team" not in str([(each, each.text, each.lexical_texts) for each in documents])


def test_a_long_section_is_several_documents() -> None:
    names = [each.doc_id.partition("#")[2] for each in entry(workflow("long", what="word " * 1500)).documents]
    assert names == ["description", "description~2", "description~3", "when_to_use"]


def test_who_derives_documents_otherwise_raises_the_revision() -> None:
    derived = [[each.doc_id, each.text_hash, each.lexical_texts] for each in entry(FULL).documents]
    digest = hashlib.sha256(json.dumps(derived).encode()).hexdigest()[:12]
    assert (DOCUMENTS_REVISION, digest) == (2, "037444ad4f17"), "raise DOCUMENTS_REVISION, and pin the new digest here"
