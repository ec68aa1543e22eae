"""`formulary search`, `show`, `list` and `doctor` against a running server and against a database."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest
import pytest_asyncio

from formulary_catalog.embedding import Embedder
from formulary_catalog.loading.loader import Loader
from formulary_catalog.store.database.connection import DEADLINE, Database, Role
from formulary_catalog.store.database.migrate import describe
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.commands import answer_of, assert_one_line, formulary
from support.databases import migrated_database
from support.filling import fill
from support.impostor import answering
from support.manifest import analysis, text, workflow
from support.process import FORMULARY
from support.services import open_parts
from support.serving import serving

HOSTILE_TITLE = "Ring\x1b[31m the \x1b]0;owned\x07bell [red]now[/red]"


@pytest_asyncio.fixture(scope="module")
async def dsn(
    postgres: EmbeddedPostgres, embedder: Embedder, starter_catalog: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """A database with the starter catalog, a hostile workflow and an incident of team blue."""
    extra = tmp_path_factory.mktemp("extra")
    (extra / "red.yaml").write_text(text(workflow("for-red", customLabels={"team": ["red"]})))
    (extra / "ai.yaml").write_text(text(analysis("ai", remediation_id="rr-blue", labels={"team": ["blue"]})))
    async with migrated_database(postgres) as address:
        writing = await Database.open(address, role=Role.WRITER, deadline=30)
        loader = Loader(
            [starter_catalog, extra],
            catalog=CatalogWriter(writing),
            contexts=ContextWriter(writing),
            contracts=ContractWriter(writing, shared_namespace="formulary"),
            default_namespace="formulary",
            owns_contexts=True,
        )
        report = await loader.load(embedder=embedder)
        # As an earlier release stored it: it is refused now.
        await fill(CatalogWriter(writing), [workflow("ring-bell", title=HOSTILE_TITLE)], embedder=embedder)
        await writing.close()
        assert report.rejections == []
        yield address


@pytest_asyncio.fixture(scope="module")
async def url(dsn: str, embedder: Embedder) -> AsyncIterator[str]:
    """A server of that database."""
    async with open_parts(dsn, embedder=embedder) as parts, serving(parts) as address:
        yield address


def without_search_id(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ("search_id", "time_ms")}


async def test_a_search_names_workflows_reasons_and_the_next_command(url: str) -> None:
    query = "raise the memory limit"
    done = await formulary("search", query, "--top-k", "1", "--url", url)
    assert (done.code, done.err) == (0, answer_of(url))
    lines = done.out.splitlines()
    assert lines[0].endswith(f"workflows for '{query}', the best first")
    assert " 1  oom-raise-memory-limit@1.1.0" in lines
    assert "    next            formulary show oom-raise-memory-limit" in lines


async def test_what_kubectl_printed_is_searched_for_and_shown_in_one_line(url: str) -> None:
    rows = [f"cart-{number}   0/1   CrashLoopBackOff   {number} (2m ago)   9m" for number in range(9)]
    printed = "\n".join(["NAME     READY   STATUS             RESTARTS       AGE", *rows])
    done = await formulary("search", "-", "--url", url, typed=printed)
    assert (done.code, done.err) == (0, answer_of(url))
    first = done.out.split(", the best first")[0]
    assert "for 'NAME READY STATUS RESTARTS AGE cart-0 0/1 CrashLoopBackOff" in " ".join(first.split())
    assert "cart-8" not in first
    assert "crashloop-" in done.out.splitlines()[done.out.splitlines().index("") + 1]


async def test_json_is_exactly_the_answer_of_rest(url: str) -> None:
    options = ["--label", "environment=production", "--label", "priority=P0", "--label", "priority=P1"]
    words = ["--exclude", "restart", "--top-k", "3", "--min-confidence", "0.1", "--json", "--url", url]
    done = await formulary("search", "OOMKilled", "memory limit", *options, *words)
    body = {
        "query": "OOMKilled memory limit",
        "label.environment": "production",
        "label.priority": ["P0", "P1"],
        "exclude_keywords": ["restart"],
        "top_k": 3,
        "min_confidence": 0.1,
    }
    async with httpx2.AsyncClient() as client:
        rest = await client.post(f"{url}/api/v1/workflows/search", json=body)
        details = await client.get(f"{url}/api/v1/workflows/oom-scale-out")
        listing = await client.get(f"{url}/api/v1/workflows", params={"limit": 200})
    assert done.code == 0
    assert without_search_id(json.loads(done.out)) == without_search_id(rest.json())
    assert (await formulary("show", "oom-scale-out", "--json", "--url", url)).out == details.text + "\n"
    assert (await formulary("list", "--json", "--url", url)).out == listing.text + "\n"


async def test_a_search_and_its_explanation_are_narrowed_as_by_an_agent(url: str, dsn: str) -> None:
    narrowed = [
        "--action",
        "scaleoutreplicas",
        "--namespace",
        "formulary",
        "--keyword",
        "replicas",
        "--keyword",
        "traffic",
    ]
    for place in (["--url", url], ["--database-url", dsn]):
        found = await formulary("search", "OOMKilled", *narrowed, "--json", *place)
        assert {hit["action_type"] for hit in json.loads(found.out)["workflows"]} == {"ScaleOutReplicas"}
        excluded = await formulary("explain", "oom-raise-memory-limit", "OOMKilled", *narrowed, "--json", *place)
        assert (excluded.code, json.loads(excluded.out)["allowed"]) == (1, False)


@pytest.mark.parametrize(
    ("query", "doubted"),
    [("external-dns creates no record in the public zone", True), ("DNS lookups fail, SERVFAIL from CoreDNS", False)],
)
async def test_an_explanation_says_why_a_near_workflow_is_doubted(url: str, query: str, doubted: bool) -> None:
    done = await formulary("explain", "dns-coredns-restart-scale", query, "--url", url)
    assert done.code == 0
    assert ("nearer to a known problem" in done.out) is doubted
    assert "for the nearest known problem of Kubernetes (cosine 0." in " ".join(done.out.split())


async def test_a_database_is_asked_like_a_server(url: str, dsn: str) -> None:
    served = await formulary("search", "pods are evicted", "--json", FORMULARY_URL=url)
    stored = await formulary("search", "pods are evicted", "--json", "--database-url", dsn, FORMULARY_URL=url)
    assert without_search_id(json.loads(stored.out)) == without_search_id(json.loads(served.out))
    for arguments in (["show", "oom-scale-out"], ["list"]):
        of_database = await formulary(*arguments, FORMULARY_DATABASE_URL=dsn)
        of_server = await formulary(*arguments, "--url", url)
        assert (of_database.code, of_database.out) == (of_server.code, of_server.out)
        assert (of_database.err, of_server.err) == (answer_of(describe(dsn)), answer_of(url))


@pytest.mark.parametrize(
    ("arguments", "path", "saying"),
    [
        (["list", "--signal", "OOMKilled", "--limit", "1"], "", "1 of "),
        (["related", "oom-scale-out"], "/workflows/oom-scale-out/related", "answersSignal"),
        (["find", "scale", "out"], "/names?name=scale+out", "oom-scale-out"),
        (["impact", "oom-scale-out"], "/workflows/oom-scale-out/impact", "none names it"),
        (
            ["show", "oom-scale-out", "--section", "when-to-use"],
            "/workflows/oom-scale-out/sections/when_to_use",
            "#when",
        ),
        (["stats"], "/stats", "workflows"),
    ],
)
async def test_browsing_answers_people_from_a_server_and_from_a_database(
    url: str, dsn: str, arguments: list[str], path: str, saying: str
) -> None:
    served = await formulary(*arguments, "--url", url)
    stored = await formulary(*arguments, "--database-url", dsn)
    assert (served.code, served.out) == (0, stored.out)
    assert saying in served.out
    told = json.loads((await formulary(*arguments, "--json", "--url", url)).out)
    if path:
        async with httpx2.AsyncClient() as client:
            assert (await client.get(f"{url}/api/v1{path}")).json() == told


@pytest.mark.parametrize("target", ["url", "dsn"])
async def test_a_misspelt_name_is_answered_with_the_nearest_in_words_for_people(
    url: str, dsn: str, target: str
) -> None:
    where = ["--url", url] if target == "url" else ["--database-url", dsn]
    for command in (["show"], ["related"], ["impact"]):
        done = await formulary(*command, "oom-scale-uot", *where)
        assert_one_line(done, code=1, saying="did you mean oom-scale-out")
        assert "retry" not in done.err
    found = await formulary("find", "oom-scale-uot", *where)
    assert found.code == 1
    assert "oom-scale-out" in found.out


async def test_a_person_waits_longer_for_a_slow_database_than_an_agent_would(dsn: str) -> None:
    waiting = "select now() - query_start from pg_stat_activity where wait_event_type = 'Lock'"
    owner, observer = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    async with owner.transaction():
        await owner.execute("lock table formulary.workflow_version in access exclusive mode")
        asked = asyncio.create_task(formulary("list", "--json", "--database-url", dsn))
        while not asked.done():
            held = await observer.fetchval(waiting)
            if held is not None and held.total_seconds() > DEADLINE:
                break
            await asyncio.sleep(0.05)
    done = await asked
    await asyncio.gather(owner.close(), observer.close())
    assert (done.code, done.err) == (0, answer_of(describe(dsn)))


async def test_an_incident_limits_what_is_found(url: str, dsn: str) -> None:
    for target in (["--url", url], ["--database-url", dsn]):
        assert (await formulary("show", "for-red", *target)).code == 0
        hidden = await formulary("show", "for-red", "--remediation-id", "rr-blue", *target)
        assert hidden.code == 1
        assert "team" not in hidden.out + hidden.err
        assert "red" not in hidden.err.replace("for-red", "")
        assert "for-red" not in (await formulary("list", "--remediation-id", "rr-blue", *target)).out


@pytest.mark.parametrize(
    ("arguments", "code", "saying"),
    [
        (["search", "-"], 2, "QUERY is missing; give it, such as 'OOMKilled critical'"),
        (["search", " "], 2, "QUERY is missing; give it, such as 'OOMKilled critical'"),
        (["search", "x", "--top-k", "0"], 2, "--top-k is 0, which is not a whole number from 1 to 50"),
        (["search", "x", "--min-confidence", "2"], 2, "--min-confidence is 2.0, which is not a number from 0 to 1"),
        (["search", "x", "--label", "severity"], 2, "--label 'severity' is not KEY=VALUE"),
        (["search", "x", "--label", "colour=red"], 2, "label 'colour' is unknown; known labels: signal-type"),
        (
            ["search", "x", "--label", "Envronment=test"],
            2,
            "--label 'Envronment' is unknown; did you mean environment?",
        ),
        (
            ["search", "x", "--label", "risk-tolerence=low"],
            2,
            "'risk-tolerence' is unknown; did you mean risk-tolerance?",
        ),
        (["search", "x" * 4001], 2, "QUERY has 4001 characters; give at most 4000"),
        (["search", "x", "--exclude", "a," + "y" * 254], 2, "--exclude has an entry of 254 characters"),
        (["search", "x", "--label", "severity=a\u202eb"], 2, "--label severity contains U+202E"),
        (["explain", "oom-scale-out", "x", "--top-k", "51"], 2, "--top-k is 51, which is not a whole number"),
        (["explain", "oom-scale-out", "x", "--label", "colour=red"], 2, "label 'colour' is unknown; known labels"),
        (["list", "--risk", "extreme"], 2, "--risk 'extreme' is not known; give one of low, medium, high, unknown"),
        (["list", "--status", "Gone"], 2, "--status 'Gone' is not known; give one of Active, Superseded"),
        (["list", "--signal", "x" * 254], 2, "--signal has 254 characters; give at most 253"),
        (["related", "oom-scale-out", "--depth", "4"], 2, "--depth is 4, which is not a whole number from 1 to 3"),
        (["related", "oom-scale-out", "--limit", "0"], 2, "--limit is 0, which is not a whole number from 1 to 100"),
        (
            ["related", "oom-scale-out", "--relation", "likes"],
            2,
            "--relation 'likes' is not known; give one of requires",
        ),
        (["related", " "], 2, "WORKFLOW|SIGNAL|ACTION is missing; give it, such as 'oom-raise-memory-limit'"),
        (["find", " "], 2, "NAME is missing; give it, such as 'memory-limit'"),
        (["show", "oom-scale-out", "--section", "all"], 2, "--section 'all' is not known; give one of description"),
        (["docs", "search", "x", "--top-k", "0"], 2, "--top-k is 0, which is not a whole number from 1 to 50"),
        (
            ["docs", "search", "x", "--collection", "books"],
            2,
            "--collection 'books' is not known; give one of",
        ),
        (["docs", "similar", "x" * 401], 2, "ID has 401 characters; give at most 400"),
        (["docs", "get", " "], 2, "ID is missing; give it, such as"),
        (["query", "select 1", "--max-rows", "0"], 2, "--max-rows is 0, which is not a whole number from 1 to 1000"),
        (["tables", "runs", "--sample", "51"], 2, "--sample is 51, which is not a whole number from 1 to 50"),
        (["search", "x", "--remediation-id", "unknown"], 2, "unknown"),
        (["search", "x", "--remediation-id", "é"], 2, "--remediation-id holds characters"),
        (
            ["show", "qqq-absent"],
            1,
            "there is no workflow 'qqq-absent' that may be used here; `formulary list` shows all",
        ),
        (["show", "Not A Name"], 2, "ID 'Not A Name' is not a workflow name"),
        (["list", "--signal", "x" * 300], 2, "--signal has 300 characters; give at most 253"),
        (["related", "oom-scale-out", "--relation", "likes"], 2, "--relation 'likes' is not known; give one of"),
        (["impact", "a/b/c"], 2, "ID 'a/b/c' is not a workflow name"),
        (["explain", "oom-scale-out", "x", "--exclude", "y" * 1001], 2, "--exclude"),
        (["docs", "get", "x" * 401], 2, "ID has 401 characters"),
        (["docs", "similar", "a#b", "--text", "x"], 2, "give one of ID, the id of a document, and text, a draft"),
        (
            ["invoke", "oom-scale-out", "--timeout-ms", "5"],
            2,
            "--timeout-ms is 5, which is not a whole number from 1000",
        ),
        (["show", "oom-scale-out", "--version", "9.9.9"], 1, "that may be used here; did you mean oom-scale-out"),
    ],
)
async def test_what_is_asked_wrongly_or_not_there_ends_in_one_line(
    url: str, arguments: list[str], code: int, saying: str
) -> None:
    done = await formulary(*arguments, "--json", "--url", url)
    assert_one_line(done, code=code, saying=saying)
    assert saying in json.loads(done.out)["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (["search", "x", "--top-k", "0"], "--top-k is 0"),
        (["list", "--risk", "extreme"], "--risk 'extreme' is not known"),
        (["docs", "search", "x", "--collection", "books"], "--collection 'books' is not known"),
        (["query", "select 1", "--max-rows", "0"], "--max-rows is 0"),
    ],
)
async def test_a_database_refuses_what_a_server_refuses(dsn: str, arguments: list[str], saying: str) -> None:
    assert_one_line(await formulary(*arguments, "--database-url", dsn), code=2, saying=saying)


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (["docs", "search", "x", "--collection", "books"], "--collection 'books' is not known"),
        (["query", "select 1", "--max-rows", "0"], "--max-rows is 0"),
        (["related", "x", "--depth", "99"], "--depth is 99"),
    ],
)
async def test_a_wrong_argument_is_refused_before_a_database_is_looked_for(
    tmp_path: Path, arguments: list[str], saying: str
) -> None:
    done = await formulary(*arguments, "--data-dir", str(tmp_path / "none"))
    assert_one_line(done, code=2, saying=saying)


async def test_a_misspelt_label_value_is_shown_as_it_was_typed_with_the_usual_one(url: str) -> None:
    done = await formulary("search", "restart", "--label", "environment=Prodction", "--url", url)
    note = "no workflow you may see declares environment Prodction; check the spelling: did you mean production?"
    assert note in " ".join(done.out.split())


async def test_hidden_characters_of_a_query_are_pointed_out(url: str) -> None:
    for character, name in (("\u200b", "U+200B (ZERO WIDTH SPACE)"), ("\u202e", "U+202E (RIGHT-TO-LEFT OVERRIDE)")):
        done = await formulary("search", f"OOM{character}Killed critical", "--url", url)
        assert f"query contains {name} at character 4, which cannot be seen" in " ".join(done.out.split())
    assert "cannot be seen" not in (await formulary("search", "OOMKilled critical", "--url", url)).out


async def test_hidden_characters_of_an_input_are_pointed_out_before_the_run_is_asked_for() -> None:
    done = await formulary("invoke", "x", "--input", "NAMESPACE=sh\u200bop", "--url", "http://127.0.0.1:9")
    note, error = done.err.splitlines()
    assert note.startswith("note: input.NAMESPACE contains U+200B (ZERO WIDTH SPACE) at character 3, which cannot be")
    assert error.startswith("formulary: no server at ")


async def test_excluded_words_may_be_separated_by_commas(url: str) -> None:
    apart = await formulary("search", "OOMKilled", "--exclude", "memory", "--exclude", "node", "--json", "--url", url)
    joined = await formulary("search", "OOMKilled", "--exclude", "memory,node", "--json", "--url", url)
    kept = [hit["workflow_id"] for hit in json.loads(joined.out)["workflows"]]
    assert kept == [hit["workflow_id"] for hit in json.loads(apart.out)["workflows"]]
    assert "oom-raise-memory-limit" not in kept


async def test_finding_nothing_ends_with_one(url: str) -> None:
    done = await formulary("search", "OOMKilled critical", "--min-confidence", "1", "--url", url)
    assert (done.code, done.err) == (1, answer_of(url))
    assert done.out.startswith("No workflow is allowed and fits 'OOMKilled critical'.")


async def test_what_a_newer_server_says_besides_is_left_out(url: str) -> None:
    async with httpx2.AsyncClient() as client:
        answer = (await client.get(f"{url}/api/v1/workflows?limit=200")).json()
    for line in answer["workflows"]:
        line["new_member"] = "new"
    async with answering(json.dumps(answer | {"new_list": []}).encode()) as newer:
        done = await formulary("list", "--url", newer)
    assert (done.code, done.err) == (0, answer_of(newer))
    assert done.out == (await formulary("list", "--url", url)).out


async def test_escapes_and_markup_of_others_do_not_reach_the_terminal(url: str) -> None:
    for arguments in (["show", "ring-bell"], ["list"], ["search", "ring bell", "--top-k", "50"]):
        done = await formulary(*arguments, "--url", url)
        assert "\x1b" not in done.out
        assert "Ring\ufffd[31m the \ufffd]0;owned\ufffdbell [red]now[/red]" in " ".join(done.out.split())


async def test_no_color_is_honoured_where_colour_is_forced(url: str) -> None:
    arguments = ["search", "OOMKilled", "--url", url]
    coloured = await formulary(*arguments, FORCE_COLOR="1")
    plain = await formulary(*arguments, FORCE_COLOR="1", NO_COLOR="1")
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", coloured.out)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain.out)


async def test_a_reader_that_leaves_early_is_no_error(url: str) -> None:
    pipeline = f"{FORMULARY} list --url {url} | head -n 1; echo ${{PIPESTATUS[0]}}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", pipeline, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert out.startswith(b"NAME")
    assert err.decode() == answer_of(url)


async def test_doctor_finds_a_healthy_installation(url: str, dsn: str) -> None:
    done = await formulary("doctor", "--url", url, "--database-url", dsn)
    assert (done.code, done.err) == (0, "")
    assert "✗" not in done.out
    assert "✓ catalog       120 workflows, 1 context" in done.out
    report = json.loads((await formulary("doctor", "--json", "--url", url, "--database-url", dsn)).out)
    assert report["ok"]
    assert [check["name"] for check in report["checks"]] == [
        "python",
        "model",
        "targets",
        "data",
        "postgresql",
        "schema",
        "row security",
        "catalog",
        "runs",
        "vectors",
        "trail",
        "server",
    ]
