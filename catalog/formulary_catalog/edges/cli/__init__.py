"""The command line `formulary` (DESIGN section 11)."""

from formulary_catalog.edges.cli.main import main

__all__ = ["main"]
