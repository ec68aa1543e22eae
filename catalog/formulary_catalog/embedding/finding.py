"""Finding a model by its id: which of the places where it might be holds exactly that one."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from formulary_catalog.embedding.embedder import Embedder
from formulary_catalog.embedding.endpoint import is_remote
from formulary_catalog.embedding.model import BASE, BUNDLED, locate
from formulary_catalog.errors import EmbedderUnavailable


def find_embedder(model_id: str, *, sources: Iterable[str], load: Callable[[str], Embedder]) -> Embedder:
    """The embedder with this id, from the first of the sources, or else the bundled models, that has it.

    Sources are as in the setting, empty ones are passed over. `load` makes an embedder of one; it is called only for
    the one that has the model, and for endpoints, which identify themselves only then.

    Raises:
        EmbedderUnavailable: none has it, or it does not load.
    """
    places = [source for source in dict.fromkeys([*sources, BUNDLED, BASE]) if source]
    silent: EmbedderUnavailable | None = None
    for source in places:
        if not is_remote(source):
            if _id_at(source) == model_id:
                return load(source)
            continue
        try:
            embedder = load(source)
        except EmbedderUnavailable as error:
            silent = error
            continue
        if embedder.model_id == model_id:
            return embedder
    if silent is not None:
        raise EmbedderUnavailable(f"The catalog is served with the embedding model {model_id}. {silent}") from silent
    raise EmbedderUnavailable(
        f"The catalog is served with the embedding model {model_id}, which is not at {' or '.join(map(repr, places))}; "
        "name it in FORMULARY_EMBEDDING_MODEL, or change to another model with `formulary reembed --to MODEL`."
    )


def source_to_keep(source: str) -> str:
    """A source as others can find it, who run in other directories: a directory with its whole path."""
    if source in (BUNDLED, BASE) or is_remote(source):
        return source
    directory = Path(os.path.expanduser(source))
    return str(directory.resolve()) if directory.is_dir() else source


def _id_at(source: str) -> str:
    try:
        return locate(source).id
    except EmbedderUnavailable:
        return ""
