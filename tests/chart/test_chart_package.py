"""The archive of the chart, as a release has it: the same files give the same bytes, and Helm reads it."""

import shutil
import subprocess
import sys
from pathlib import Path

import helm_python
import pytest

from support import charts
from support.scripts import script
from support.source_tree import ROOT

DIGEST = f"sha256:{'0a' * 32}"
IMAGE = f"registry.example/formulary@{DIGEST}"


def _packed(place: Path, *, image: str = "") -> helm_python.Chart:
    archive = place / "formulary.tgz"
    archive.write_bytes(script("release").packed_chart(image))
    return helm_python.Chart.load(archive)


def test_the_same_files_give_the_same_bytes_in_another_place_with_other_permissions_and_times(tmp_path: Path) -> None:
    shutil.copytree(charts.CHART, tmp_path / "charts" / "formulary")
    (tmp_path / "scripts").mkdir()
    for file in ("pyproject.toml", "scripts/release.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    for copied in tmp_path.rglob("*.yaml"):
        copied.chmod(0o600)
        copied.touch()

    done = subprocess.run([sys.executable, "scripts/release.py", "chart"], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_bytes() == script("release").packed_chart()


def test_the_archive_renders_what_the_directory_renders(tmp_path: Path) -> None:
    packed = _packed(tmp_path)

    assert packed.render({}, name="formulary", namespace="formulary") == charts.templates({})
    assert not [file for file in packed.files if file["name"].startswith("ci/")]


def test_the_chart_of_a_release_runs_the_image_that_was_pushed_with_it(tmp_path: Path) -> None:
    packed = _packed(tmp_path, image=IMAGE)

    rendered = packed.render({}, name="formulary", namespace="formulary")
    lines = [line.strip() for text in rendered.values() for line in text.splitlines()]
    assert {line for line in lines if line.startswith("image: ")} == {f'image: "{IMAGE}"'}
    assert f"image: {IMAGE}\n" in packed.metadata["annotations"]["artifacthub.io/images"]
    (readme,) = (str(file["data"]) for file in packed.files if file["name"] == "README.md")
    assert "helm install formulary oci://registry.example/charts/formulary -n formulary" in readme


@pytest.mark.parametrize("image", ["registry.example/formulary:0.1.0", "formulary", f"Formulary@{DIGEST}"])
def test_no_chart_is_packed_for_an_image_without_its_digest(image: str) -> None:
    release = script("release")
    with pytest.raises(release.NotReady, match="is no image with its digest"):
        release.packed_chart(image)
