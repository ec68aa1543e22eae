"""The command line `formulary` (DESIGN section 11)."""

from formulary_catalog.cli.main import main

__all__ = ["main"]
