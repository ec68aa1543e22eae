"""The image, as far as that shows without building it; `tests/packaging` runs its steps."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
DIGEST = "sha256:" + "0" * 64
_COMMANDS = (
    "formulary_catalog.edges.cli.serve",
    "formulary_catalog.edges.cli.database",
    "formulary_catalog.edges.cli.doctor",
    "formulary_catalog.runtime.checks",
    "formulary_catalog.runtime.serving_process",
    "formulary_catalog.edges.app",
    "formulary_catalog.store.database.migrate",
    "formulary_operator.cli",
    "formulary_operator.runtime",
    "formulary_operator.access.authentication",
)
# Every import of what the image lacks fails, as it would there.
_IMPORTS = """
import importlib, sys
absent = set(sys.argv[1].split(","))
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
for name in sys.argv[2:]:
    importlib.import_module(name)
"""
_ABSENT = "torch,transformers,sentence_transformers,onnx,sklearn,scipy,openvino_telemetry,pip,setuptools"


def sources() -> list[str]:
    """What the Dockerfile copies from this directory."""
    copies = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    return [source for line in copies for source in line.split()[:-1]]


def test_everything_that_is_copied_exists_and_is_not_ignored() -> None:
    sent = (ROOT / ".dockerignore").read_text().splitlines()

    assert [source for source in sources() if not (ROOT / source).exists()] == []
    assert [source for source in sources() if f"!{source}" not in sent] == []


def test_every_stage_that_is_copied_from_exists() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))

    assert set(re.findall(r"--from=(\w+)", DOCKERFILE)) <= stages


def test_the_bill_of_materials_is_made_last_by_a_pinned_program_of_what_the_image_gets() -> None:
    first_stage = DOCKERFILE.replace("\\\n", "").partition("\nFROM ${RUN_IMAGE}")[0]
    last = re.findall(r"^RUN (.+)$", first_stage, re.MULTILINE)[-1]
    (gets,) = re.findall(r"^COPY --from=install (\S+)", DOCKERFILE, re.MULTILINE)

    assert "--require-hashes --only-binary :all: -r requirements/sbom.txt" in last
    assert "cyclonedx-bom==" in (ROOT / "requirements" / "sbom.txt").read_text()
    assert re.findall(r"cyclonedx-py environment .*--output-file (\S+) (\S+)$", last) == [
        (f"{gets}/sbom.cdx.json", f"{gets}/bin/python")
    ]


def test_base_images_are_named_by_arguments_without_a_default_that_the_lock_file_gives() -> None:
    images = json.loads((ROOT / "requirements" / "images.json").read_text())
    bases = re.findall(r"^FROM \$\{(\w+)\}", DOCKERFILE, re.MULTILINE)

    assert len(re.findall(r"^FROM ", DOCKERFILE, re.MULTILINE)) == len(bases)
    assert re.findall(r"^ARG (.+)$", DOCKERFILE, re.MULTILINE) == bases == list(images)


@pytest.fixture
def builder(tmp_path: Path) -> Path:
    """The script, a base image that is not pinned, and a docker that knows its digest and builds nothing."""
    for directory in ("scripts", "requirements", "bin"):
        (tmp_path / directory).mkdir()
    shutil.copy(ROOT / "scripts" / "image.py", tmp_path / "scripts")
    lock = {"INSTALL_IMAGE": {"image": "debian:12", "digest": ""}}
    (tmp_path / "requirements" / "images.json").write_text(json.dumps(lock))
    docker = tmp_path / "bin" / "docker"
    docker.write_text(f"#!/bin/sh\necho \"$@\" >>'{tmp_path}/asked'\necho '{json.dumps({'digest': DIGEST})}'\n")
    docker.chmod(0o755)
    return tmp_path


def test_nothing_is_built_from_a_base_image_without_a_digest(builder: Path) -> None:
    done = _image(builder, "build", "formulary:1")

    assert done.returncode == 1
    assert "requirements/images.json has no digest of debian:12; run `make base-images`" in done.stderr
    assert not (builder / "asked").exists()


def test_digests_are_read_once_and_built_from_after_that(builder: Path) -> None:
    assert _image(builder, "lock").returncode == 0
    assert _image(builder, "build", "formulary:1").returncode == 0

    looked, built = (builder / "asked").read_text().splitlines()
    assert looked.startswith("buildx imagetools inspect debian:12 ")
    assert built == f"buildx build --load --tag formulary:1 --build-arg INSTALL_IMAGE=debian:12@{DIGEST} ."


def test_an_image_is_published_for_all_machines_and_named_by_its_digest(builder: Path) -> None:
    assert _image(builder, "lock").returncode == 0
    (builder / "build").mkdir()
    (builder / "build" / "image.json").write_text(json.dumps({"containerimage.digest": DIGEST}))

    done = _image(builder, "publish", "registry.example:5000/formulary:1", "--source", "https://code.example/formulary")

    assert done.stdout.splitlines()[-1] == f"registry.example:5000/formulary@{DIGEST}", done.stderr
    built = (builder / "asked").read_text().splitlines()[-1]
    assert "--push --platform linux/amd64,linux/arm64 --provenance=mode=max" in built
    assert "--label org.opencontainers.image.source=https://code.example/formulary" in built


def test_every_package_of_the_image_is_checked_by_its_hash_and_comes_from_one_index() -> None:
    installs = re.findall(r"bin/pip install (.+?)(?: &&|\n)", DOCKERFILE.replace("\\\n", ""))
    locks = {name for install in installs for name in re.findall(r"-r (\S+)", install)}

    assert len(installs) == 4
    assert [
        i for i in installs if "--require-hashes" not in i and not i.startswith("--no-deps --no-build-isolation .")
    ] == []
    assert "index" not in DOCKERFILE
    for lock in locks:
        text = (ROOT / lock).read_text()
        requirements = re.findall(r"^([a-z0-9._-]+)==.*?(?=^[a-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL)
        assert len(requirements) == len(
            re.findall(r"^[a-z0-9._-]+==\S+(?: ; .+?)? \\\n    --hash=sha256:", text, re.MULTILINE)
        )
        assert "torch" not in requirements


def test_the_image_runs_as_the_user_of_the_chart() -> None:
    assert "\nUSER 65532:65532\n" in DOCKERFILE


def test_server_operator_and_migration_import_nothing_that_the_image_lacks() -> None:
    subprocess.run([sys.executable, "-c", _IMPORTS, _ABSENT, *_COMMANDS], check=True, timeout=120)


def _image(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{tree / 'bin'}:/usr/bin:/bin"}
    command = [sys.executable, str(tree / "scripts" / "image.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
