"""The command line `formulary` (DESIGN section 11)."""

from formulary_catalog.cli.commands import main

__all__ = ["main"]
