"""Where the manifests that ship with the product are."""

from pathlib import Path


def starter_catalog() -> Path:
    """The directory of the starter catalog, in an installed package or in the source tree."""
    package = Path(__file__).parent
    installed = package / "starter"
    return installed if installed.is_dir() else package.parent / "workflows"
