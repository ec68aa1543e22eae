"""The embedded PostgreSQL of an image without a shell: its cluster was made beforehand, and nothing runs `/bin/sh`."""

import tarfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from formulary_catalog.store.embedded import server
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.embedded.template import pack
from support.embedded import passable_directory, query, servers


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = tmp_path_factory.mktemp("share") / "formulary" / "cluster.tar.gz"
    pack(archive)
    return archive


_extract = tarfile.TarFile.extractall


def _extract_as_in_debian_12(archive: tarfile.TarFile, path: Any = ".", members: Any = None) -> None:
    """The Python of the image is 3.11.2, which has no argument for a filter."""
    _extract(archive, path, members)


def test_without_a_shell_a_first_start_takes_the_cluster_that_was_made_beforehand(
    template: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(server, "_SHELL", tmp_path / "none")
    monkeypatch.setattr(tarfile.TarFile, "extractall", _extract_as_in_debian_12)
    before = {*psutil.Process().children(recursive=True)}  # other databases of the tests, which have a shell
    with passable_directory() as place:
        with EmbeddedPostgres(data_dir=place / "data", template=template) as postgres:
            assert query(postgres.dsn(), "select extversion from pg_extension where extname = 'vector'")
            started = {*psutil.Process().children(recursive=True)} - before
            programs = [program for each in started for program in each.cmdline()[:1]]
        with EmbeddedPostgres(data_dir=place / "data", template=template) as postgres:
            assert query(postgres.dsn(), "select 1") == "1"
        assert not servers(place)

    assert programs
    assert not any(program.endswith("sh") for program in programs)
