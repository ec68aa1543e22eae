"""Whether a cached export is intact, and how one takes its place."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from formulary_catalog.embedding.cache import CachedExport
from formulary_catalog.embedding.model import ModelSource

SOURCE = ModelSource(name="acme/tiny model", revision="0123456789ab", path=Path("unused"))


def _publish(export: CachedExport, *, model: bytes = b"weights", tokenizer: bytes = b"words") -> None:
    with export.writing() as partial:
        (partial / "model.xml").write_bytes(b"graph")
        (partial / "model.bin").write_bytes(model)
        (partial / "tokenizer.json").write_bytes(tokenizer)
        export.publish(partial, cosine=0.99995)


def _publish_without_a_tokenizer(export: CachedExport) -> None:
    with export.writing() as partial:
        (partial / "model.xml").write_bytes(b"graph")
        (partial / "model.bin").write_bytes(b"half")
        export.publish(partial, cosine=1.0)


@pytest.fixture
def export(tmp_path: Path) -> CachedExport:
    return CachedExport.of(SOURCE, cache_dir=tmp_path)


@pytest.fixture
def published(export: CachedExport) -> CachedExport:
    _publish(export)
    return export


def test_the_directory_names_model_revision_and_format(export: CachedExport, tmp_path: Path) -> None:
    assert export.directory == tmp_path / "models" / "acme--tiny--model-0123456789ab-3"


def test_the_users_cache_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert CachedExport.of(SOURCE).directory.parent == tmp_path / "formulary" / "models"


def test_an_absent_export_is_a_defect(export: CachedExport) -> None:
    assert export.defect() == "it does not exist"


def test_a_published_export_is_intact_and_knows_its_cosine(published: CachedExport) -> None:
    assert published.defect() is None
    assert published.cosine == 0.99995


def test_an_export_of_another_model_is_not_taken_for_this_one(published: CachedExport) -> None:
    other = CachedExport(model_id="other@0123456789ab", directory=published.directory)
    assert other.defect() == "it is of another model"


def _truncate(directory: Path) -> None:
    (directory / "model.bin").write_bytes(b"weight")


def _flip_a_bit(directory: Path) -> None:
    (directory / "tokenizer.json").write_bytes(b"wordt")


def _lose_a_file(directory: Path) -> None:
    (directory / "tokenizer.json").unlink()


def _garble_the_manifest(directory: Path) -> None:
    (directory / "manifest.json").write_bytes(b"\xff{")


def _empty_the_manifest(directory: Path) -> None:
    (directory / "manifest.json").write_text(json.dumps({"model_id": SOURCE.id}))


@pytest.mark.parametrize(
    ("damage", "defect"),
    [
        (_truncate, "its model.bin is truncated"),
        (_flip_a_bit, "its tokenizer.json is corrupt"),
        (_lose_a_file, "its tokenizer.json is missing"),
        (_garble_the_manifest, "its manifest.json is damaged"),
        (_empty_the_manifest, "its manifest.json is damaged"),
    ],
)
def test_damage_is_noticed(published: CachedExport, damage: Callable[[Path], None], defect: str) -> None:
    damage(published.directory)
    assert published.defect() == defect


def test_publishing_replaces_a_damaged_export(published: CachedExport) -> None:
    _truncate(published.directory)
    _publish(published, model=b"other weights")
    assert published.defect() is None
    assert (published.directory / "model.bin").read_bytes() == b"other weights"


def test_a_writer_that_fails_leaves_the_export_as_it_was(published: CachedExport) -> None:
    with pytest.raises(FileNotFoundError, match="tokenizer"):
        _publish_without_a_tokenizer(published)
    assert published.defect() is None
    assert not list(published.directory.parent.glob("*.partial"))


def test_leftovers_of_a_killed_writer_are_swept(export: CachedExport) -> None:
    leftover = export.directory.with_name(f"{export.directory.name}.partial") / "model.bin"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    with export.writing() as partial:
        assert os.listdir(partial) == []
