"""Exports a model to a file that OpenVINO runs: `python -m formulary_catalog.embedding.export --model DIRECTORY`.

For encoders that `graph` does not build, outside the BERT family. A program of its own, because torch costs seconds and
hundreds of megabytes that a server must not pay. Needs the extra `sentence-transformers`.
"""

import argparse
import importlib.util
import os
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from formulary_catalog.embedding.architecture import Architecture, UnsupportedArchitecture
from formulary_catalog.embedding.cache import MODEL_FILE, TOKENIZER_FILE, CachedExport
from formulary_catalog.embedding.local import LocalEmbedder, Network
from formulary_catalog.embedding.model import ModelSource, locate
from formulary_catalog.errors import EmbedderUnavailable, FormularyError

MIN_COSINE = 0.9999

_TOOLCHAIN = ("torch", "sentence_transformers", "onnx")
_CHECK_TEXTS = (
    "OOMKilled critical",
    "CrashLoopBackOff high payments production",
    "Increase the memory limit of a deployment whose containers are killed for exceeding it",
    "Cordon and drain a node that is NotReady, then replace it " * 4,
    "The rollout is stuck because the image cannot be pulled from the registry. " * 60,
    "",
    "   \t\n ",
    "a",
    "Größe überschritten: naïve café, ÅNGSTRÖM",
    "メモリ不足でコンテナが停止しました 磁盘压力 🚑🔥",
    "kubectl -n prod rollout undo deploy/api --to-revision=3",
)


def main(arguments: list[str] | None = None) -> int:
    """Make the export unless an intact one is there; print its directory, the seconds spent and the cosine."""
    parser = argparse.ArgumentParser(prog="python -m formulary_catalog.embedding.export", description=main.__doc__)
    parser.add_argument("--model", required=True, help="a directory or a hub id")
    parser.add_argument("--cache-dir", type=Path, help="instead of the user's cache directory")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    try:
        export = ensure_export(locate(options.model), cache_dir=options.cache_dir)
    except FormularyError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"{export.directory}  {time.perf_counter() - started:.1f} s  cosine {export.cosine:.6f}")
    return 0


def ensure_export(source: ModelSource, *, cache_dir: Path | None = None) -> CachedExport:
    """The intact export of this model, made now if need be; concurrent processes wait for each other.

    Raises `EmbedderUnavailable` if the model needs no export, the extra `sentence-transformers` is missing, the cache
    cannot be written, or the result strays from the reference by a cosine below 0.9999.
    """
    with suppress(UnsupportedArchitecture):
        Architecture.of(source.path)
        raise EmbedderUnavailable(f"The embedding model {source.name} needs no export: its weights are served.")
    export = CachedExport.of(source, cache_dir=cache_dir)
    if (defect := export.defect()) is None:
        return export
    _require_toolchain(export, defect=defect)
    try:
        with export.writing() as partial:
            if export.defect() is not None:  # not made meanwhile by the process we waited for
                cosine = _export(source, directory=partial)
                export.publish(partial, cosine=cosine)
    except OSError as error:
        raise EmbedderUnavailable(
            f"Exporting to {export.directory} failed ({error.strerror or type(error).__name__}); "
            f"the directory must be writable, or hold an export copied from another machine."
        ) from error
    return export


def _require_toolchain(export: CachedExport, *, defect: str) -> None:
    missing = [name for name in _TOOLCHAIN if importlib.util.find_spec(name) is None]
    if missing:
        raise EmbedderUnavailable(
            f"The export in {export.directory} cannot be used ({defect}) and making one needs {', '.join(missing)}; "
            "install formulary[sentence-transformers], or copy an export from elsewhere."
        )


def _export(source: ModelSource, *, directory: Path) -> float:
    """Fill `directory` with the graph and the tokenizer; the least cosine to the reference."""
    _silence_libraries()
    from formulary_catalog.embedding.reference import load_reference, write_graph, write_tokenizer

    try:
        model = load_reference(source)
        write_graph(model, directory / MODEL_FILE)
        expected = model.encode(list(_CHECK_TEXTS), normalize_embeddings=True, show_progress_bar=False)
        write_tokenizer(model, directory / TOKENIZER_FILE)
    except Exception as error:  # torch, transformers and OpenVINO raise types of their own, without a common base
        raise EmbedderUnavailable(f"{source.name} could not be exported: {_last_line(error)}") from error
    cosine = _least_cosine(expected, _exported(source, directory=directory).embed_documents(_CHECK_TEXTS))
    if not cosine >= MIN_COSINE:  # so that NaN is refused as well
        raise EmbedderUnavailable(
            f"The export of {source.name} strays from the reference (cosine {cosine:.4f}, at least {MIN_COSINE} is "
            f"required); this model cannot be served, use another one."
        )
    return cosine


def _exported(source: ModelSource, *, directory: Path) -> LocalEmbedder:
    # In float32: what is checked is the graph, not the arithmetic of this processor.
    return LocalEmbedder(Network.exported(directory), model_id=source.id, precision="f32")


def _silence_libraries() -> None:
    # Takes effect only before their first import.
    warnings.simplefilter("ignore")
    os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_PROGRESS_BARS="1", TRANSFORMERS_VERBOSITY="error")


def _least_cosine(expected: npt.NDArray[np.float32], actual: npt.NDArray[np.float32]) -> float:
    if expected.shape != actual.shape:
        return 0.0
    return float(np.min(np.sum(expected * actual, axis=1, dtype=np.float64)))


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


if __name__ == "__main__":
    sys.exit(main())
