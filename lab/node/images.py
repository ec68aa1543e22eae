"""The images that a node has from its start, and the store of containerd that holds them, prepared once.

Formulary's is made by the steps of its Dockerfile, PostgreSQL's from Debian's packages under the name that the chart
asks for, all others from Debian's packages under the names that workflows and manifests use.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from lab.node.addons.install import DNS_IMAGE, METRICS_IMAGE
from lab.node.containers import PAUSE_IMAGE
from lab.node.formulary_image import OWN_PATH, ROOT, formulary_layer, libraries_layer
from lab.node.layers import (
    busybox_layer,
    cache,
    files_layer,
    pause_layer,
    python_layer,
    tools_layer,
)
from lab.node.postgres_image import postgres_layer
from lab.node.programs import Programs

FORMULARY_IMAGE = "docker.io/library/formulary:lab"
FORMULARY_DIGEST = f"sha256:{'0f' * 32}"
"""The chart of a release names the image by its digest."""
PYTHON_IMAGE, BUSYBOX_IMAGE = "docker.io/library/python:3.11", "docker.io/library/busybox:1.35"
_TOOLS_IMAGE = "docker.io/alpine/k8s:1.34.1"
_POSTGRES_IMAGE = "docker.io/pgvector/pgvector:0.8.1-pg17"
_ADDONS = Path(__file__).parent / "addons"
_PATH = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image: its name with its tag, its layers from the lowest, its configuration, and the digest of the real one.

    Workflows ask for their image by digest, which none made here can have: the name with that digest leads to it too.
    """

    name: str
    layers: tuple[Path, ...]
    config: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    @property
    def other_name(self) -> str:
        """The name by which containerd looks for it where a digest is asked for; empty without one."""
        return f"{self.name.rpartition(':')[0]}@{self.digest}" if self.digest else ""


def all_images(programs: Programs) -> list[Image]:
    """All images of a node; those whose layers are not in the cache are made now, Formulary's in about a minute."""
    busybox, python = busybox_layer(), python_layer()
    addons = files_layer("addons", {f"opt/lab/node/addons/{path.name}": path for path in _ADDONS.glob("*.py")})
    tools = tools_layer(programs.control_plane / "kubectl")
    libraries = libraries_layer()
    return [
        Image(name=PAUSE_IMAGE, layers=(pause_layer(),), config={"Entrypoint": ["/pause"], "User": "65535:65535"}),
        Image(name=BUSYBOX_IMAGE, layers=(busybox,), config={"Cmd": ["sh"], "Env": ["PATH=/bin"]}),
        Image(name=_TOOLS_IMAGE, layers=(tools,), config={"Cmd": ["sh"], "Env": [_PATH]}, digest=_tools_digest()),
        Image(name=PYTHON_IMAGE, layers=(python,), config={"Cmd": ["python3"], "Env": [_PATH]}),
        _addon(DNS_IMAGE, "dns", python, addons),
        _addon(METRICS_IMAGE, "metrics", python, addons),
        Image(
            name=FORMULARY_IMAGE,
            layers=(python, libraries, formulary_layer()),
            config={
                "User": "65532:65532",
                "Env": [
                    "PATH=/opt/formulary/bin:/usr/bin",
                    "HF_HUB_OFFLINE=1",
                    "PYTHONDONTWRITEBYTECODE=1",
                    "PYTHONUNBUFFERED=1",
                ],
                "Cmd": ["formulary", "serve", "--host", "0.0.0.0"],
            },
            digest=FORMULARY_DIGEST,
        ),
        Image(
            name=_POSTGRES_IMAGE,
            layers=(postgres_layer(),),
            config={
                "Env": [f"{_PATH}:/usr/lib/postgresql/17/bin", "PGDATA=/var/lib/postgresql/data", "LANG=C.UTF-8"],
                "Entrypoint": ["docker-entrypoint.sh"],
                # As in the official image: on SIGTERM PostgreSQL waits for its clients.
                "StopSignal": "SIGINT",
            },
        ),
    ]


def prepare_store(images: Sequence[Image]) -> Path:
    """The directory of containerd with these images, made by containerd itself unless it is in the cache."""
    of = json.dumps(
        [[image.name, image.digest, [layer.name for layer in image.layers], dict(image.config)] for image in images]
    )
    store = cache() / f"store-{hashlib.sha256(of.encode()).hexdigest()[:16]}"
    if not store.exists():
        with TemporaryDirectory(dir=cache()) as scratch:
            home = Path(scratch)
            archives = [home / f"{number}.tar" for number in range(len(images))]
            for image, archive in zip(images, archives, strict=True):
                write_archive(image, archive)
            command = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]
            names = {image.other_name: image.name for image in images if image.digest}
            module = [sys.executable, "-m", "lab.node.importing", str(home), json.dumps(names), *map(str, archives)]
            environment = {**os.environ, **OWN_PATH}
            subprocess.run([*command, *module], check=True, stdin=subprocess.DEVNULL, cwd=ROOT, env=environment)
            (home / "containerd").rename(store)
        for old in set(cache().glob("store-*")) - {store}:
            shutil.rmtree(old)
    return store


def write_archive(image: Image, archive: Path) -> None:
    """Write an image as `docker save` does."""
    digests = []
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for layer in image.layers:
            with layer.open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
            tar.add(layer, arcname=f"{digests[-1]}.tar")
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]}
        config = {"architecture": "amd64", "os": "linux", "config": dict(image.config), "rootfs": rootfs}
        described = json.dumps(config).encode()
        name = f"{hashlib.sha256(described).hexdigest()}.json"
        manifest = [{"Config": name, "RepoTags": [image.name], "Layers": [f"{digest}.tar" for digest in digests]}]
        for member, content in ((name, described), ("manifest.json", json.dumps(manifest).encode())):
            information = tarfile.TarInfo(member)
            information.size = len(content)
            tar.addfile(information, BytesIO(content))


def _tools_digest() -> str:
    """The digest by which workflows of the starter catalog ask for the image of their commands."""
    workflows = [
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "catalog/workflows").glob("*.yaml")
    ]
    run = [workflow["spec"]["execution"] for workflow in workflows]
    (digest,) = {each["bundleDigest"] for each in run if each["bundle"] == _TOOLS_IMAGE}
    return str(digest)


def _addon(name: str, program: str, *layers: Path) -> Image:
    command = ["python3", "-m", f"lab.node.addons.{program}"]
    config = {"Entrypoint": command, "Env": [_PATH, "PYTHONUNBUFFERED=1", "PYTHONPATH=/opt"]}
    return Image(name=name, layers=layers, config=config)
