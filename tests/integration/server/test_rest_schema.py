"""The REST side keeps what its OpenAPI document promises (DESIGN section 8)."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from formulary_catalog.edges.app import OPENAPI_PATH, openapi_document
from formulary_catalog.store.analytics.sessions import ROLE
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.manifest import text, workflow
from support.serving import catalog, serving

SEARCH = "/api/v1/workflows/search"
# Whether an incident, a search or a workflow exists is in no schema, so a valid request may well be refused; that a
# valid search without an incident never is, has a test of its own.
# Sources send to an address which also reads the incident `namespace/name`: one parameter of the document with a
# slash in it, so Allow names a GET that the address of sources does not have there.
NOT_IN_THE_SCHEMA = "positive_data_acceptance,allow_header_conformance"


@pytest.fixture(scope="module")
async def url(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(text(workflow("ours"), workflow("theirs")))
    loaded = catalog([own], postgres=postgres, embedder=None, context_wait_seconds=0)
    async with loaded as parts:
        (database,) = await parts.database.fetch("select current_database() as name")
        insight = postgres.dsn(user=ROLE, database=database["name"])
        async with serving(parts, analytics_database_url=insight, analytics_per_minute=10_000) as at:
            yield at


@pytest.mark.parametrize(
    ("phases", "examples"),
    [("examples,fuzzing", 2), pytest.param("examples,coverage,fuzzing", 15, marks=pytest.mark.long)],
    ids=["some", "all"],
)
async def test_no_generated_request_finds_a_broken_promise(
    url: str, tmp_path: Path, phases: str, examples: int
) -> None:
    # A generated address may be too long for any check of its parameters.
    rejected = '[checks.negative_data_rejection]\nexpected-statuses = ["4xx", "5xx"]\n'
    (tmp_path / "schemathesis.toml").write_text(rejected)
    command = [
        str(Path(sys.executable).parent / "schemathesis"),
        "run",
        url + OPENAPI_PATH,
        *("--checks", "all", "--exclude-checks", NOT_IN_THE_SCHEMA),
        *("--phases", phases, "--max-examples", str(examples), "--generation-deterministic"),
        *("--continue-on-failure", "--no-color"),
    ]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)

    done = await asyncio.to_thread(run)

    assert done.returncode == 0, done.stdout[-5000:]
    assert "54 selected / 54 total" in done.stdout


async def test_every_valid_search_without_an_incident_is_answered(url: str) -> None:
    operation = schemathesis.openapi.from_dict(openapi_document())[SEARCH]["POST"]
    cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)

    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(cases)
    def answered(case: schemathesis.Case[Any]) -> None:
        assert isinstance(case.body, dict)
        # A label both flat and nested is refused where the two differ, and a target that is not there, which no schema
        # can say.
        body = {name: value for name, value in case.body.items() if not name.startswith(("label.", "target"))}
        response = httpx2.post(url + SEARCH, json=body | {"remediation_id": None})
        # Which characters cannot be seen is Unicode's to say: no pattern of a schema has them.
        refused_by_character = "NUL" in response.text or "cannot be seen" in response.text
        assert response.status_code == 200 or refused_by_character, (body, response.text)

    await asyncio.to_thread(answered)


async def test_the_document_is_served_and_describes_every_operation(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        document = (await http.get(OPENAPI_PATH)).json()

    assert document == openapi_document()
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["description"]
            if path.startswith("/api/"):
                assert {"200", "400", "403", "408", "421", "500", "503"} <= set(operation["responses"])
                assert "422" not in operation["responses"]
    for path in (SEARCH, "/api/v1/selections", "/api/v1/invoke", "/api/v1/invocations/{invocation_id}/approval"):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        jsonschema.Draft202012Validator(body["schema"]).validate(body["example"])
