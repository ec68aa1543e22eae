"""The tensors of a `model.safetensors` file, mapped into memory. The reader of the package safetensors copies them.

Used by `model` to refuse damaged files and by `graph` to build the network. A mapped tensor costs no memory of its own:
the system reads its pages on use, shares them between processes and drops them when memory is short.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Tensor = npt.NDArray[Any]

WEIGHTS_FILE = "model.safetensors"

_LENGTH_BYTES = 8
_TYPES: Mapping[str, type[np.generic]] = {"F16": np.float16, "F32": np.float32, "I64": np.int64}


class _Entry(NamedTuple):
    """Where a tensor is; `dtype` by safetensors' name, `offset` in bytes from the beginning of the file."""

    file: Path
    dtype: str
    offset: int
    shape: tuple[int, ...]


class Weights:
    """Tensors by name. The file's layout: length of the header, header in JSON, tensors (safetensors' specification).

    Names lose the prefix `bert.`, which files saved from a larger model have.
    """

    def __init__(self, *files: Path) -> None:
        """Read the headers; a tensor of a later file replaces that of an earlier one.

        Raises ValueError or LookupError if one is not a safetensors file, or cut off.
        """
        self._entries = {name: entry for file in files for name, entry in _read_header(file).items()}

    @property
    def unsupported_types(self) -> list[str]:
        """Types of tensors that cannot be read here, by safetensors' names, such as BF16."""
        return sorted({entry.dtype for entry in self._entries.values()} - set(_TYPES))

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> Tensor:
        """The tensor, read-only. Raises LookupError if there is none of this name or its type is not supported."""
        entry = self._entries[name]
        return np.memmap(entry.file, dtype=_TYPES[entry.dtype], mode="r", offset=entry.offset, shape=entry.shape)


def _read_header(file: Path) -> dict[str, _Entry]:
    size = file.stat().st_size
    with file.open("rb") as content:
        header_size = int.from_bytes(content.read(_LENGTH_BYTES), "little")
        if header_size > size:
            raise ValueError("the header is cut off")
        header = json.loads(content.read(header_size))
    header.pop("__metadata__", None)
    start = _LENGTH_BYTES + header_size
    if size != start + max(tensor["data_offsets"][1] for tensor in header.values()):
        raise ValueError("the tensors are cut off")
    return {
        name.removeprefix("bert."): _Entry(
            file=file, dtype=tensor["dtype"], offset=start + tensor["data_offsets"][0], shape=tuple(tensor["shape"])
        )
        for name, tensor in header.items()
    }
