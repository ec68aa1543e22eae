"""The first start of the embedded PostgreSQL, with an empty data directory, in the places people really start in.

Copies of the programs go to a place of the test's own: that of the machine may serve others meanwhile.
"""

import fcntl
import os
import pwd
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.embedded import (
    IS_ROOT,
    NOBODY,
    SOURCE,
    VECTORS,
    Owner,
    as_root,
    made_home,
    mounted,
    postmaster,
    program_of,
    query,
    refusal,
    refused,
    started,
    with_mounts,
)
from support.process import formulary_up

NAMELESS = 12345
PLAIN_USER = NOBODY if IS_ROOT else 0


@as_root
def test_root_starts_in_a_closed_home(closed: Path, copies: Path) -> None:
    data_dir = closed / "data"
    with started(Owner(data_dir, path=closed / "environment", copies=copies)):
        assert postmaster(data_dir).uids().real == NOBODY
        assert program_of(data_dir).is_relative_to(copies)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@as_root
def test_root_runs_formulary_up_in_a_closed_home(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{closed / 'environment'}:{os.environ.get('PYTHONPATH', '')}")
    with formulary_up(data_dir=closed / "data", manifests=[]) as up:
        assert any("mode hybrid" in line for line in up.output)
        assert program_of(closed / "data").is_relative_to("/var/lib/formulary")


def test_a_plain_user_starts_in_a_closed_home(place: Path, copies: Path) -> None:
    home = made_home(place / "home", user=PLAIN_USER)
    with started(Owner(home / "data", user=PLAIN_USER, path=home / "environment", copies=copies)):
        assert postmaster(home / "data").uids().real == (PLAIN_USER or os.geteuid())
        assert program_of(home / "data").is_relative_to(home)
    assert not copies.exists()


@pytest.mark.parametrize("mode", [0o711, 0o700])
def test_a_path_may_have_spaces_and_letters_that_are_not_ascii(place: Path, copies: Path, mode: int) -> None:
    (place / "große Büros 東京").mkdir()
    (place / "große Büros 東京").chmod(0o711)
    home = made_home(place / "große Büros 東京" / "Zoë's home")
    home.chmod(mode)
    copies = home.parent / "var lib" / "formulary"
    with started(Owner(home / "meine Daten", path=home / "environment", copies=copies)):
        assert program_of(home / "meine Daten").is_relative_to(home.parent)


def test_the_environment_may_be_read_only(place: Path) -> None:
    home = made_home(place / "home")
    home.chmod(0o711)
    environment = home / "environment"
    with ExitStack() as stack:
        if IS_ROOT:
            stack.enter_context(mounted("-o", "bind,ro", environment, environment))
        else:
            subprocess.run(["chmod", "-R", "a-w", environment], check=True)
            stack.callback(lambda: subprocess.run(["chmod", "-R", "u+w", environment], check=True))
        with started(Owner(home / "data", path=environment)):
            assert program_of(home / "data").is_relative_to(environment)


@as_root
@pytest.mark.parametrize("below", [".", "data"])
def test_the_data_may_be_on_another_file_system_that_executes_no_programs(place: Path, below: str) -> None:
    with mounted("-t", "tmpfs", "-o", "mode=755,noexec", "tmpfs", place), started(Owner(place / below)):
        assert (place / below / "cluster").stat().st_dev != place.parent.stat().st_dev


def test_of_two_first_starts_in_one_directory_one_serves_and_the_others_are_refused(place: Path) -> None:
    data_dir = place / "new" / "data"
    owners = [Owner(data_dir) for _ in range(4)]
    answers = {owner.process.pid: owner.says() for owner in owners}
    try:
        ((pid, address),) = [(pid, said) for pid, said in answers.items() if said.startswith("postgresql://")]
        assert query(address, VECTORS) == "2"
        assert {said for said in answers.values() if said != address} == {
            f"data directory {data_dir} is in use by process {pid} (formulary up); stop it or choose another --data-dir"
        }
    finally:
        for owner in owners:
            owner.finish()


def test_a_process_that_is_gone_is_not_named_as_the_owner(place: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(str(gone.pid))
        lock.flush()
        assert refusal(place) == (
            f"data directory {place} is in use by another process (formulary up); stop it or choose another --data-dir"
        )


@as_root
def test_the_socket_is_not_put_into_a_temporary_directory_that_the_account_cannot_enter(closed: Path) -> None:
    (closed / "tmp").mkdir()
    with started(Owner(closed / "data", environment={"TMPDIR": str(closed / "tmp")})) as address:
        assert "host=/tmp/formulary-" in address


@pytest.mark.parametrize("name", ["x" * 100, "mit Leerzeichen", "größer"])
def test_the_socket_is_not_put_into_a_temporary_directory_that_no_address_can_name(place: Path, name: str) -> None:
    (place / name).mkdir()
    with started(Owner(place / name / "data", environment={"TMPDIR": str(place / name)})) as address:
        assert "host=/tmp/formulary-" in address


@as_root
@pytest.mark.skipif(Path(sys.prefix).is_relative_to("/tmp"), reason="the program itself lies in /tmp")
def test_a_system_without_any_directory_for_the_socket_is_reported(closed: Path) -> None:
    (closed / "tmp").mkdir()
    within = with_mounts("mount -t tmpfs -o mode=700 tmpfs /tmp")
    assert refused(Owner(closed / "data", environment={"TMPDIR": str(closed / "tmp")}, within=within)) == (
        f"there is no place for PostgreSQL's socket: {closed}/tmp and /tmp are closed to its user or have names that "
        "are too long; set TMPDIR to another directory, or name a server with --database-url"
    )


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "de_DE", "LANG": "xx"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
    ids=["unknown", "ascii"],
)
def test_the_locale_of_the_caller_does_not_matter(place: Path, environment: dict[str, str]) -> None:
    with started(Owner(place / "Büro", environment=environment)) as address:
        assert query(address, "select lower('É') || to_char(date '2020-05-01', 'TMMonth')") == "éMay"


@as_root
def test_a_system_without_the_user_nobody_is_reported(place: Path) -> None:
    (place / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (place / "nsswitch.conf").write_text("passwd: files\n")
    mounts = "; ".join(f"mount --bind {place}/{name} /etc/{name}" for name in ("passwd", "nsswitch.conf"))
    assert refused(Owner(place / "data", within=with_mounts(mounts))) == (
        "PostgreSQL does not run as root, and this system has no user `nobody` to run it as; add that user, "
        "run as another user than root, or name a server with --database-url"
    )


@as_root
def test_root_without_the_right_to_change_its_user_is_reported(place: Path) -> None:
    within = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    assert refused(Owner(place / "data", within=within)) == (
        "PostgreSQL does not run as root, and root may not run it as another user here: Operation not permitted; "
        "run as another user than root, or name a server with --database-url"
    )


@as_root
def test_a_user_id_without_a_name_is_reported(place: Path) -> None:
    with pytest.raises(KeyError):
        pwd.getpwuid(NAMELESS)
    home = made_home(place / "home", user=NAMELESS)
    assert refused(Owner(home / "data", user=NAMELESS, path=home / "environment")) == (
        f"PostgreSQL sets up a database only for a user with a name, and user id {NAMELESS} has none; "
        "add the id to /etc/passwd, run as another user, or name a server with --database-url"
    )


@as_root
@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        ("default_data_dir()", "StartupError: user id {user} has no home directory; set HOME or choose a --data-dir"),
        (
            "CachedExport.of(source)",
            "EmbedderUnavailable: User id {user} has no home directory; set HOME or FORMULARY_MODEL_CACHE_DIR.",
        ),
    ],
)
def test_a_user_without_a_home_directory_has_to_name_one(call: str, refusal: str) -> None:
    script = f"""if True:
        import os
        from formulary_catalog.embedding.cache import CachedExport
        from formulary_catalog.embedding.model import locate
        from formulary_catalog.store.embedded.server import default_data_dir
        source = locate("bundled")
        os.setuid({NAMELESS})
        {call}
    """
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(refusal.format(user=NAMELESS))


def test_a_data_directory_below_an_unknown_home_is_reported() -> None:
    assert refusal(Path("~no-such-user/data")) == (
        "data directory ~no-such-user/data cannot be found: `~` names no home directory here; give its whole path"
    )
