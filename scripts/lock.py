"""Writes `requirements/*.txt`: exact versions, with hashes, of everything that is installed: `make lock [UPGRADE=1]`.

uv resolves for every platform and Python at once; pip and uv both install from the result. The versions there now are
kept unless one contradicts `pyproject.toml`, or `--upgrade` is given. torch is not in there: which build of it is
installed depends on the machine, and PyPI's for Linux brings gigabytes of accelerator libraries.
`requirements/torch.txt` names its version.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
PROJECT = ROOT / "pyproject.toml"

# What any build of torch requires, except itself and accelerator libraries.
_TORCH_REQUIRES = "filelock fsspec jinja2 networkx setuptools>=77.0.3 sympy>=1.13.3 typing-extensions>=4.10".split()
# What making the bundled model needs beside numpy (`bundled_model.py`).
_MODEL_REQUIRES = "safetensors>=0.6,<1"
# What lists the packages of the image (the Dockerfile).
_BILL_OF_MATERIALS = "cyclonedx-bom>=7,<8"
_WITHOUT_TORCH = "torch ; sys_platform == 'none'"


def main() -> None:
    parser = argparse.ArgumentParser(prog="lock.py", description="Write requirements/*.txt with exact versions.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that pyproject.toml admits")
    upgrade = ["--upgrade"] if parser.parse_args().upgrade else []
    build = tomllib.loads(PROJECT.read_text())["build-system"]["requires"]
    with uv_program() as uv, tempfile.TemporaryDirectory() as scratch:
        beside_torch = _written(Path(scratch, "torch.in"), _TORCH_REQUIRES)
        without_torch = _written(Path(scratch, "without.in"), [_WITHOUT_TORCH])
        _compile(uv, "run.txt", [PROJECT], *upgrade)
        _compile(
            uv,
            "build.txt",
            [_written(Path(scratch, "build.in"), [*build, _MODEL_REQUIRES])],
            *_within("run.txt"),
            *upgrade,
        )
        extras = ["--extra=dev", "--extra=sentence-transformers", "--overrides", str(without_torch)]
        extras += ["--no-emit-package=torch", *_within("run.txt", "build.txt")]
        _compile(uv, "dev.txt", [PROJECT, beside_torch, REQUIREMENTS / "build.txt"], *extras, *upgrade)
        _compile(uv, "docs.txt", [], "--group=docs", *_within("dev.txt"), *upgrade)
        bill = _written(Path(scratch, "sbom.in"), [_BILL_OF_MATERIALS])
        _compile(uv, "sbom.txt", [bill], *_within("dev.txt"), *upgrade)
        # What these require is in dev.txt, except torch.
        _compile(uv, "training.txt", [], "--group=training", "--no-deps", *_within("dev.txt"), *upgrade)


def _compile(uv: str, name: str, sources: list[Path], *options: str) -> None:
    command = [uv, "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-annotate"]
    command += [*options, "--output-file", str(REQUIREMENTS / name), *map(str, sources)]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "UV_CUSTOM_COMPILE_COMMAND": "make lock"})


def _within(*names: str) -> list[str]:
    return [option for name in names for option in ("--constraints", str(REQUIREMENTS / name))]


def _written(path: Path, requirements: list[str]) -> Path:
    path.write_text("".join(f"{requirement}\n" for requirement in requirements))
    return path


@contextmanager
def uv_program() -> Iterator[str]:
    """The uv on PATH, else one in an environment that is thrown away."""
    if found := shutil.which("uv"):
        yield found
        return
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        python = Path(directory, "bin", "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"], check=True)
        yield str(Path(directory, "bin", "uv"))


if __name__ == "__main__":
    main()
