"""Layers of images, made from Debian's packages and kept in the user's cache by what they are made from.

A layer is a tar file. Nothing of a registry of images is needed.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

from platformdirs import user_cache_path

from support.toolcache import location

Fill = Callable[[Path], None]
"""Puts the files of a layer into an empty directory."""

_NEEDLESS = ("var/lib/apt", "var/cache", "usr/share/doc", "usr/share/man", "usr/share/locale", "dev")
_ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
    "nonroot:x:65532:65532:nonroot:/home/nonroot:/bin/sh\n",
    "etc/group": "root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n",
}


def cache() -> Path:
    """Where layers and stores of images are kept."""
    path = user_cache_path("formulary") / "lab"
    path.mkdir(parents=True, exist_ok=True)
    return path


def make_layer(name: str, *, of: str, fill: Fill) -> Path:
    """The layer of a name, made by `fill` unless one of the same `of` is there: all that it is made from."""
    path = cache() / f"{name}-{hashlib.sha256(of.encode()).hexdigest()[:16]}.tar"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache()) as scratch:
            root = Path(scratch, "root")
            root.mkdir()
            root.chmod(0o755)
            fill(root)
            partial = Path(scratch, "layer.tar")
            pack(root, partial)
            partial.rename(path)
        for old in set(cache().glob(f"{name}-*.tar")) - {path}:
            old.unlink()
    return path


def pack(root: Path, archive: Path) -> None:
    """Write a directory as a layer. What an overlay marks as deleted becomes what layers mark so."""
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            inside, status = path.relative_to(root), path.lstat()
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                tar.addfile(tarfile.TarInfo(str(inside.with_name(f".wh.{inside.name}"))), BytesIO())
            elif not stat.S_ISSOCK(status.st_mode):
                tar.add(path, arcname=str(inside), recursive=False)


def pause_layer() -> Path:
    """What holds the namespaces of a pod."""
    program = next(location("").glob("node-bookworm-*/pause"))
    return make_layer("pause", of=_digest(program), fill=lambda root: _copy(program, root / "pause"))


def busybox_layer() -> Path:
    """A shell with its usual commands."""
    return make_layer("busybox", of="1", fill=_fill_busybox)


def tools_layer(kubectl: Path) -> Path:
    """What starter workflows expect in their image: kubectl, a shell, jq, curl."""

    def fill(root: Path) -> None:
        extract_packages(root, "base-files", "jq", "curl", "bash", "ca-certificates")
        _add_busybox(root)
        _copy(kubectl, root / "usr/local/bin/kubectl")

    return make_layer("tools", of=f"2 {_digest(kubectl)}", fill=fill)


def python_layer() -> Path:
    """Python of Debian and what Formulary links to, without a shell."""
    packages = ("base-files", "netbase", "tzdata", "ca-certificates", "libstdc++6", "libgomp1", "python3", "openssl")

    def fill(root: Path) -> None:
        extract_packages(root, *packages, "python3-distutils", "libssl3")
        for shell in ("sh", "dash", "bash", "perl"):
            for folder in ("bin", "usr/bin"):
                (root / folder / shell).unlink(missing_ok=True)
        home = root / "home/nonroot"
        home.mkdir(parents=True)
        os.chown(home, 65532, 65532)

    return make_layer("python", of=f"2 {packages}", fill=fill)


def files_layer(name: str, files: Mapping[str, Path]) -> Path:
    """A layer of single files, by their paths in it."""
    of = " ".join(f"{inside} {_digest(path)}" for inside, path in sorted(files.items()))

    def fill(root: Path) -> None:
        for inside, path in files.items():
            _copy(path, root / inside)

    return make_layer(name, of=of, fill=fill)


def extract_packages(root: Path, *packages: str, suite: str = "bookworm", variant: str = "extract") -> None:
    """Unpack packages of Debian and what they depend on."""
    wanted = f"--include={','.join(packages)}"
    subprocess.run(
        ["mmdebstrap", "--quiet", f"--variant={variant}", wanted, suite, root, mirror()],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    for needless in _NEEDLESS:
        shutil.rmtree(root / needless, ignore_errors=True)
    (root / "dev").mkdir()
    if variant == "extract":
        for inside, text in _ACCOUNTS.items():
            (root / inside).write_text(text)
    _make_temporary(root)


def mirror() -> str:
    """The archive that this machine installs Debian from."""
    query = ["Created-By: Packages", "Codename: bookworm", "Component: main"]
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", *query]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return found[0]


def _fill_busybox(root: Path) -> None:
    _add_busybox(root)
    for inside, text in _ACCOUNTS.items():
        (root / inside).parent.mkdir(exist_ok=True)
        (root / inside).write_text(text)
    _make_temporary(root)


def _add_busybox(root: Path) -> None:
    program = shutil.which("busybox")
    assert program is not None
    _copy(Path(program), root / "bin/busybox")
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in {*applets, "sh"} - {"busybox"}:
        if applet == "sh" or not (root / "usr/bin" / applet).exists():
            (root / "bin" / applet).unlink(missing_ok=True)
            (root / "bin" / applet).symlink_to("busybox")


def _make_temporary(root: Path) -> None:
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
