"""Formulary's catalog: remediation workflows, found by what is allowed here and fits best."""

from importlib.metadata import version

__version__ = version("formulary")
