"""How targets are read: an implementation that another package brings, found by name as authentication is.

`runtime` opens it for each process. The file that maps labels to constraints is read here, too.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path

from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING, ContextMapping, context_mapping
from formulary_catalog.domain.targets.surroundings import TargetReader
from formulary_catalog.errors import StartupError
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.loading.syntax import SyntaxProblem, parse_yaml
from formulary_catalog.settings import Settings

OFF = "off"
_GROUP = "formulary.targets"


@asynccontextmanager
async def target_contexts(
    settings: Settings, *, otherwise: TargetReader | None = None, kube_context: str = ""
) -> AsyncIterator[TargetContexts]:
    """The contexts of targets, read in the way of the settings; by `otherwise` where they name none.

    An implementation is an entry point of the group `formulary.targets`: called with `kube_context`, the name of a
    context of the caller's kubeconfig, it returns an asynchronous context manager that yields a `TargetReader`.

    Raises:
        StartupError: it is not known or cannot be set up, or the file of the mapping is wrong.
    """
    mapping = read_context_mapping(settings.context_file)
    if settings.context_target == OFF:
        yield TargetContexts(otherwise, mapping=mapping)
        return
    known = {point.name: point for point in entry_points(group=_GROUP)}
    if settings.context_target not in known:
        raise StartupError(
            f"FORMULARY_CONTEXT_TARGET is {settings.context_target!r}, which is not installed; known are: "
            f"{', '.join([OFF, *sorted(known)])}"
        )
    async with known[settings.context_target].load()(kube_context=kube_context) as reader:
        yield TargetContexts(reader, mapping=mapping)


def read_context_mapping(file: Path | None) -> ContextMapping:
    """The mapping of a file; the defaults where none is named.

    Raises:
        StartupError: it cannot be read, or a field breaks a rule.
    """
    if file is None:
        return DEFAULT_MAPPING
    try:
        document = parse_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, SyntaxProblem) as error:
        raise StartupError(
            f"FORMULARY_CONTEXT_FILE {file}: {getattr(error, 'strerror', None) or error}; correct the file, or unset it"
        ) from None
    return context_mapping(document, source=f"FORMULARY_CONTEXT_FILE {file}")
