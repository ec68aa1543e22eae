"""`formulary trace` on a real database: read, proven, exported, kept; and what it says of a trail that was bent."""

import asyncio
import json
import os
import pty
import re
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from formulary_catalog.domain.audit.export import directory_name
from formulary_catalog.store.audit.events import TraceEvent, TraceStore
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import describe
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import incident
from support.commands import Finished, answer_of, formulary
from support.databases import empty_database
from support.process import FORMULARY
from support.trail import age

INCIDENT = "rr-2026-0042"
HOSTILE = "../../evil\x1b[31m\n/ü"


@pytest.fixture
async def traces(database: str) -> AsyncIterator[TraceStore]:
    """A trail with one incident, told from the first search to the outcome, and one search of somebody else."""
    opened = await Database.open(database, role=Role.WRITER, deadline=30)
    store = TraceStore(opened)
    for _, kind, payload in incident.HAPPENED:
        await record(store, INCIDENT, kind=kind, payload=payload)
    await record(store, "tr_other", kind="search", payload={**incident.SEARCH, "caller": "somebody-else"})
    yield store
    await opened.close()


async def record(store: TraceStore, trace_id: str, *, kind: str, payload: Any) -> None:
    await store.append(TraceEvent(trace_id=trace_id, kind=kind, caller=payload["caller"], payload=payload))


async def trace(*arguments: str, dsn: str, **environment: str) -> Finished:
    return await formulary("trace", *arguments, FORMULARY_DATABASE_URL=dsn, **environment)


def names(directory: Path) -> set[str]:
    """What a directory holds."""
    return {file.name for file in directory.iterdir()}


async def tamper(dsn: str, *statements: str) -> None:
    """Do as the owner of the tables can."""
    owner = await asyncpg.connect(dsn)
    await owner.execute("set search_path = formulary")
    for statement in ("alter table trace_event disable trigger user", *statements):
        await owner.execute(statement)
    await owner.execute("alter table trace_event enable trigger user")
    await owner.close()


EDIT = f"update trace_event set body = replace(body, 'alice', 'mallory') where trace_id = '{INCIDENT}' and seq = 7"


async def test_the_list_has_the_newest_first(traces: TraceStore, database: str) -> None:
    done = await trace("list", dsn=database)
    assert (done.code, done.err) == (0, answer_of(describe(database)))
    header, other, reported = done.out.splitlines()
    assert header.split() == "SIGNAL TARGET OUTCOME CHANGED (UTC) CALLER EVENTS TRACE".split()
    assert other.split()[-3:] == ["somebody-else", "1", "tr_other"]
    assert reported.split()[-3:] == [incident.AGENT, "10", INCIDENT]
    assert reported.startswith("OOMKilled critical  shop/oom  none ")
    listed = json.loads((await trace("list", "--limit", "1", "--since", "1h", "--json", dsn=database)).out)
    assert [(each["trace_id"], each["events"], each["held"]) for each in listed["traces"]] == [("tr_other", 1, False)]


@pytest.mark.parametrize("since", ["2999-01-01", "2999-01-01T10:00Z", "0m"])
async def test_a_list_without_traces_ends_with_one(traces: TraceStore, database: str, since: str) -> None:
    done = await trace("list", "--since", since, dsn=database)
    assert (done.code, done.err) == (1, answer_of(describe(database)))
    assert done.out == "No trace is of this kind; leave out filters to see more.\n"


async def test_a_time_that_is_none_is_wrong_usage() -> None:
    done = await trace("list", "--since", "yesterday", dsn="postgresql://nobody@127.0.0.1:9/none")
    assert done.code == 2
    assert "--since 'yesterday' is no time; give 90m, 24h" in done.err


async def test_the_story_of_an_incident_is_told(traces: TraceStore, database: str) -> None:
    done = await trace("show", INCIDENT, dsn=database)
    assert (done.code, done.err) == (0, answer_of(describe(database)))
    lines = done.out.splitlines()
    assert lines[0] == f"Trace {INCIDENT}"
    assert lines[1] == "outcome         run of formulary/oom-raise@1.0.0 succeeded after 42 s"
    assert "chain           10 events, unbroken" in lines
    passages = [line[24:] for line in lines if line[8:11] == "  +"]
    assert passages[:4] == [
        "searched for “OOMKilled critical”: 3 allowed",
        "read formulary/oom-raise@1.0.0",
        "read drain-node: failed",
        "chose formulary/oom-raise@1.0.0",
    ]
    assert "run of formulary/oom-raise@1.0.0 approved by alice" in passages


async def test_a_story_as_json_holds_the_events_as_they_were_hashed(traces: TraceStore, database: str) -> None:
    reported = json.loads((await trace("show", INCIDENT, "--json", dsn=database)).out)
    assert reported["trace_id"] == INCIDENT
    assert (reported["verification"]["status"], reported["verification"]["findings"]) == ("PASS", [])
    assert [event["kind"] for event in reported["events"]] == [kind for _, kind, _ in incident.HAPPENED]
    assert reported["events"][3]["payload"]["arguments"]["reasoning"] == "killed at its limit"


@pytest.mark.parametrize("command", [["show"], ["export", "DIR"], ["verify"], ["hold", "--reason", "r"], ["release"]])
async def test_a_trace_that_is_not_known_is_said_with_the_way_out(
    traces: TraceStore, database: str, tmp_path: Path, command: list[str]
) -> None:
    name, *others = command
    more = [str(tmp_path / "out") if each == "DIR" else each for each in others]
    done = await trace(name, "rr-unknown", *more, dsn=database)
    assert done.code == 1
    assert "trace 'rr-unknown'" in done.err
    assert "`formulary trace list`" in done.err or name == "release"
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


async def test_a_trail_that_is_whole_verifies(traces: TraceStore, database: str) -> None:
    done = await trace("verify", dsn=database)
    assert (done.code, done.err) == (0, "")
    first, second, third = done.out.splitlines()
    assert third == f"this is the trail of {describe(database)}"
    assert first == (
        "! 11 events of 2 traces, 0 checkpoints: as they were written, but NOTHING PROVES THE TAIL COMPLETE"
    )
    assert second.startswith(
        "no published checkpoint was compared: any number of the newest events, back to the first, could be missing, "
    )
    assert second.endswith("(there is none here); compare with --published FILE|URL or --seen NUMBER:HASH")
    assert (await trace("verify", INCIDENT, dsn=database)).out.startswith("! 10 events of 1 trace,")


async def test_what_was_bent_is_named_by_verify_show_and_export(
    traces: TraceStore, database: str, tmp_path: Path
) -> None:
    await tamper(database, EDIT)
    verified = await trace("verify", dsn=database)
    assert verified.code == 1
    finding, summary, _ = verified.out.splitlines()
    assert finding.startswith(f"✗ trace {INCIDENT}, event 7, edited: ")
    assert summary == "11 events of 2 traces, 0 checkpoints: 1 finding"
    report = json.loads((await trace("verify", "--json", dsn=database)).out)
    assert (report["status"], report["pass"], report["error_count"], report["event_count"]) == ("FAIL", False, 1, 11)
    assert report["checks"] == {"schema_valid": True, "hash_chain_valid": False, "structure_valid": True}
    (discrepancy,) = report["discrepancies"]
    assert (discrepancy["trace_id"], discrepancy["first"], discrepancy["problem"]) == (INCIDENT, 7, "edited")
    shown = await trace("show", INCIDENT, dsn=database)
    assert shown.code == 1
    assert "chain           BROKEN: " in shown.out
    places = [shown.out.index(text) for text in ("approved by mallory", "    NOT AS RECORDED", "1.0.0 started")]
    assert places == sorted(places)
    exported = await trace("export", INCIDENT, str(tmp_path), dsn=database)
    assert exported.code == 1
    assert json.loads((tmp_path / INCIDENT / "diff.json").read_text())["discrepancies"] == [discrepancy]
    assert (await trace("verify", "tr_other", dsn=database)).code == 0


async def test_a_trace_that_was_dropped_is_told_from_one_that_never_was(traces: TraceStore, database: str) -> None:
    assert (await trace("checkpoint", dsn=database)).code == 0
    await tamper(
        database,
        f"delete from trace_event where trace_id = '{INCIDENT}'",
        f"delete from trace_head where trace_id = '{INCIDENT}'",
    )
    shown = await trace("show", INCIDENT, dsn=database)
    assert shown.code == 1
    assert f"trace '{INCIDENT}' is gone: " in shown.err
    verified = await trace("verify", dsn=database)
    assert verified.code == 1
    assert f"✗ trace {INCIDENT}, dropped: " in verified.out


async def test_an_export_has_the_files_of_the_trace(traces: TraceStore, database: str, tmp_path: Path) -> None:
    done = await trace("export", INCIDENT, str(tmp_path / "new" / "evidence"), dsn=database)
    directory = tmp_path / "new" / "evidence" / INCIDENT
    assert (done.code, done.out, done.err) == (0, f"{directory}\n", answer_of(describe(database)))
    assert names(directory) == {"events.ndjson", "verdict.json", "verdict.md", "replay.json", "diff.json"}
    replay = json.loads((directory / "replay.json").read_text())
    assert (replay["trace_id"], replay["replay"]["status"], replay["replay"]["event_count"]) == (INCIDENT, "PASS", 10)
    assert json.loads((directory / "verdict.json").read_text())["final_decision"] == "ALLOW"


async def test_a_trace_id_that_looks_like_a_path_stays_in_the_directory(
    traces: TraceStore, database: str, tmp_path: Path
) -> None:
    await record(traces, HOSTILE, kind="search", payload=incident.SEARCH)
    done = await trace("export", HOSTILE, str(tmp_path / "evidence"), dsn=database)
    assert done.code == 0
    assert names(tmp_path) == {"evidence"}
    assert names(tmp_path / "evidence") == {directory_name(HOSTILE)}
    for arguments in (["list"], ["show", HOSTILE], ["verify"]):
        assert "\x1b" not in (await trace(*arguments, dsn=database)).out


async def test_all_events_go_to_one_file_or_to_standard_output(
    traces: TraceStore, database: str, tmp_path: Path
) -> None:
    file = tmp_path / "all.ndjson"
    done = await trace("export", "--all", "--jsonl", str(file), dsn=database)
    assert (done.code, done.out, done.err) == (0, "", answer_of(describe(database)))
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(event["trace_id"], event["seq"]) for event in events] == [
        *((INCIDENT, seq) for seq in range(1, 11)),
        ("tr_other", 1),
    ]
    assert (await trace("export", "--all", "--jsonl", "-", dsn=database)).out == file.read_text()
    assert (await trace("export", "--all", "--jsonl", dsn=database)).out == file.read_text()
    assert (await trace("export", "--jsonl", "--all", dsn=database)).out == file.read_text()
    one = await trace("export", INCIDENT, "--jsonl", "-", dsn=database)
    assert one.out.splitlines() == file.read_text().splitlines()[:10]


async def test_an_export_overwrites_files_only_if_it_is_told_to(
    traces: TraceStore, database: str, tmp_path: Path
) -> None:
    directory, file = tmp_path / INCIDENT, tmp_path / "all.ndjson"
    directory.mkdir()
    for taken, arguments in (
        (directory / "replay.json", [INCIDENT, str(tmp_path)]),
        (file, ["--all", "--jsonl", str(file)]),
        (file, [INCIDENT, "--jsonl", str(file)]),
    ):
        taken.write_text("evidence")
        refused = await trace("export", *arguments, dsn=database)
        assert (refused.code, refused.out) == (3, "")
        assert f"{taken} is there already; name another place, or give --force" in refused.err
        assert taken.read_text() == "evidence"
        assert (await trace("export", *arguments, "--force", dsn=database)).code == 0
        assert taken.read_text() != "evidence"
    assert names(directory) >= {"events.ndjson", "replay.json"}
    assert (await trace("export", "--all", "--jsonl", "/dev/null", dsn=database)).code == 0


@pytest.mark.parametrize(
    "arguments",
    [[], [INCIDENT], ["--all"], [INCIDENT, "d", "--jsonl", "f"], [INCIDENT, "--all", "--jsonl", "f"], ["--jsonl", "f"]],
)
async def test_an_export_needs_to_know_what_and_where(arguments: list[str]) -> None:
    done = await trace("export", *arguments, dsn="postgresql://nobody@127.0.0.1:9/none")
    assert done.code == 2
    assert "give TRACE and DIR, or TRACE and --jsonl FILE, or --all and --jsonl FILE" in done.err


async def test_a_place_that_cannot_be_written_is_said(traces: TraceStore, database: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments in ([INCIDENT, str(tmp_path / "file")], ["--all", "--jsonl", str(tmp_path)]):
        done = await trace("export", *arguments, dsn=database)
        assert done.code == 3
        assert "cannot be written" in done.err
        assert done.err.count("\n") == 1


async def test_a_reader_that_leaves_an_export_early_is_no_error(traces: TraceStore, database: str) -> None:
    for number in range(400):
        await record(traces, f"rr-{number}", kind="search", payload=incident.SEARCH)
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f"{FORMULARY} trace export --all --jsonl - | head -n 1",
        env=os.environ | {"FORMULARY_DATABASE_URL": database},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert json.loads(out)["seq"] == 1
    assert err.decode() == answer_of(describe(database))


async def test_a_signed_checkpoint_is_checked_with_the_public_key(
    traces: TraceStore, database: str, tmp_path: Path
) -> None:
    key, public = tmp_path / "audit.pem", tmp_path / "audit.pem.pub"
    made = await formulary("trace", "keygen", str(key))
    assert (made.code, made.err) == (0, "")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    await asyncio.to_thread((tmp_path / "half.pem.pub").touch)
    for taken in (key, tmp_path / "half.pem", tmp_path / "no" / "such.pem"):
        again = await formulary("trace", "keygen", str(taken))
        assert again.code == 3
        assert "never overwritten" in again.err or "cannot be written" in again.err
    assert names(tmp_path) == {"audit.pem", "audit.pem.pub", "half.pem.pub"}
    unsigned = await trace("checkpoint", dsn=database)
    assert "2 traces, NOT signed" in unsigned.out
    assert (await trace("checkpoint", dsn=database)).out == "nothing has happened since the last checkpoint\n"
    await record(traces, INCIDENT, kind="search", payload=incident.SEARCH)
    written = await trace("checkpoint", "--json", dsn=database, FORMULARY_AUDIT_KEY_FILE=str(key))
    (checkpoint,) = json.loads(written.out)["checkpoints"]
    assert (checkpoint["id"], checkpoint["traces"], checkpoint["signed"]) == (2, 1, True)
    unkeyed = await trace("verify", dsn=database)
    assert unkeyed.code == 0
    assert "1 checkpoint not signed" in unkeyed.out
    assert "1 signature not checked: name the key in FORMULARY_AUDIT_PUBLIC_KEY_FILE" in unkeyed.out
    for named in ({"FORMULARY_AUDIT_PUBLIC_KEY_FILE": str(public)}, {"FORMULARY_AUDIT_KEY_FILE": str(key)}):
        keyed = await trace("verify", dsn=database, **named)
        assert keyed.code == 0
        assert "not checked" not in keyed.out
    other = tmp_path / "other.pem"
    await formulary("trace", "keygen", str(other))
    wrong = await trace("verify", dsn=database, FORMULARY_AUDIT_PUBLIC_KEY_FILE=f"{other}.pub")
    assert wrong.code == 1
    assert "✗ checkpoint 2, checkpoint-unsigned: " in wrong.out
    for command in (["checkpoint"], ["expire", "--yes"]):
        keyless = await trace(*command, dsn=database)
        assert keyless.code == 3
        assert "name the key in FORMULARY_AUDIT_KEY_FILE" in keyless.err
    for seen, code, said in (
        (f"2:{checkpoint['hash']}", 0, "as they were written"),
        (f"2:{'0' * 64}", 1, "✗ checkpoint 2, checkpoint-edited: "),
        (f"3:{checkpoint['hash']}", 1, "✗ checkpoint 3, checkpoint-missing: "),
        ("2", 2, "names no checkpoint"),
    ):
        compared = await trace("verify", "--seen", seen, dsn=database)
        assert compared.code == code
        assert said in compared.out + compared.err


@pytest.mark.parametrize("variable", ["FORMULARY_AUDIT_KEY_FILE", "FORMULARY_AUDIT_PUBLIC_KEY_FILE"])
async def test_a_key_that_is_none_is_said(database: str, tmp_path: Path, variable: str) -> None:
    (tmp_path / "odd.pem").write_text("-----BEGIN NOTHING-----")
    for file, saying in (("odd.pem", "which holds"), ("absent.pem", "which cannot be read: No such file")):
        done = await trace("verify", dsn=database, **{variable: str(tmp_path / file)})
        assert done.code == 3
        assert f"{variable} is " in done.err
        assert saying in done.err


async def test_old_traces_go_and_held_ones_stay(traces: TraceStore, database: str) -> None:
    await record(traces, "rr-old", kind="search", payload=incident.SEARCH)
    owner = await asyncpg.connect(database)
    for trace_id in ("rr-old", "tr_other"):
        await age(owner, trace_id, at=datetime(2020, 2, 2, tzinfo=UTC))
    await owner.close()
    held = await trace("hold", "tr_other", "--reason", "legal case 17", dsn=database)
    assert (held.code, held.err) == (0, answer_of(describe(database)))
    assert "is held already" in (await trace("hold", "tr_other", "--reason", "again", dsn=database)).err
    listed = json.loads((await trace("list", "--json", dsn=database)).out)["traces"]
    assert [each["trace_id"] for each in listed if each["held"]] == ["tr_other"]
    planned = await trace("expire", dsn=database)
    assert planned.code == 0
    assert "1 trace from before" in planned.out
    assert "would go; --yes drops them" in planned.out
    assert (await trace("show", "rr-old", dsn=database)).code == 0
    gone = json.loads((await trace("expire", "--older-than", "13", "--yes", "--json", dsn=database)).out)
    assert gone["expired"] is True
    assert gone["months"] == [{"month": "2020-02", "traces": 1, "events": 1, "held": 1, "in_use": 0}]
    assert "trace 'rr-old' has expired" in (await trace("show", "rr-old", dsn=database)).err
    assert (await trace("verify", dsn=database)).code == 0
    assert (await trace("release", "tr_other", dsn=database)).code == 0
    assert "is not held" in (await trace("release", "tr_other", dsn=database)).err
    assert "1 trace from before" in (await trace("expire", "--yes", dsn=database)).out


async def test_whoever_does_not_see_all_of_the_trail_is_told_so(
    traces: TraceStore, database: str, postgres: EmbeddedPostgres
) -> None:
    name = urlsplit(database).path.lstrip("/")
    for command in (["verify"], ["list"], ["show", INCIDENT], ["export", "--all", "--jsonl", "-"]):
        done = await trace(*command, dsn=postgres.dsn(user=Role.SERVER, database=name))
        assert done.code == 3
        assert "connect as the database's owner" in done.err


async def test_the_operators_role_verifies_and_does_nothing_else_with_the_whole_trail(
    traces: TraceStore, database: str, postgres: EmbeddedPostgres
) -> None:
    operator = postgres.dsn(user=Role.WRITER, database=urlsplit(database).path.lstrip("/"))
    assert (await trace("verify", "--json", dsn=operator)).out == (await trace("verify", "--json", dsn=database)).out
    assert (await trace("verify", INCIDENT, dsn=operator)).out.startswith("! 10 events of 1 trace,")
    await tamper(database, EDIT)
    assert (await trace("verify", dsn=operator)).code == 1
    for command in (["list"], ["show", INCIDENT], ["export", "--all", "--jsonl", "-"], ["release", INCIDENT]):
        done = await trace(*command, dsn=operator)
        assert (done.code, "connect as the database's owner" in done.err) == (3, True), command


async def test_a_published_checkpoint_says_up_to_when_the_trail_is_complete(
    traces: TraceStore, database: str, tmp_path: Path
) -> None:
    (checkpoint,) = json.loads((await trace("checkpoint", "--json", dsn=database)).out)["checkpoints"]
    published = tmp_path / "published"
    published.write_text(f"1:{checkpoint['hash']}\n")
    await record(traces, INCIDENT, kind="search", payload=incident.SEARCH)
    await trace("checkpoint", dsn=database)

    for options in (["--published", str(published)], ["--seen", f"1:{checkpoint['hash']}"]):
        compared = await trace("verify", *options, dsn=database)
        first, second, *_ = compared.out.splitlines()
        assert (compared.code, first) == (0, "✓ 12 events of 2 traces, 2 checkpoints: as they were written")
        assert re.fullmatch(
            r"complete up to checkpoint 1 of \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, which was published; nothing proves that "
            "later events are all there",
            second,
        )
        report = json.loads((await trace("verify", "--json", *options, dsn=database)).out)
        assert (report["status"], report["pass"], report["tail_proven"], report["tail"]) == ("PASS", True, True, second)
        assert (report["proven_checkpoint"]["id"], report["newest_checkpoint"]["id"]) == (1, 2)
    alone = json.loads((await trace("verify", "--json", dsn=database)).out)
    assert (alone["status"], alone["pass"], alone["tail_proven"]) == ("TAIL_UNPROVEN", True, False)
    assert (alone["proven_checkpoint"], alone["newest_checkpoint"]["id"]) == (None, 2)


async def test_a_place_where_nothing_was_published_is_no_comparison(
    traces: TraceStore, database: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    for name in ("absent", "empty"):
        done = await trace("verify", "--published", str(tmp_path / name), dsn=database)
        assert (done.code, done.out) == (2, "")
        assert "--published names a place that holds no checkpoint to compare with" in done.err


async def test_a_database_without_a_trail_is_told_apart_from_an_empty_one(postgres: EmbeddedPostgres) -> None:
    async with empty_database(postgres) as dsn:
        done = await trace("verify", dsn=dsn)
    assert done.code == 3
    assert "run `formulary migrate`" in done.err


async def test_progress_is_shown_on_a_terminal_alone(traces: TraceStore, database: str) -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        FORMULARY,
        "trace",
        "verify",
        env=os.environ | {"FORMULARY_DATABASE_URL": database, "TERM": "xterm", "COLUMNS": "100"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    out, _ = await process.communicate()
    shown = os.read(ours, 100_000)
    os.close(ours)
    assert out.decode().startswith("! 11 events of 2 traces, 0 checkpoints: as they were written")
    assert b"events" in shown
