"""Puts the bundled embedding model into what hatchling builds; it makes the model first, unless it is there already."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.append(str(Path(__file__).parent / "scripts"))
import bundled_model  # it is found only then


class BundledModelHook(BuildHookInterface[BuilderConfig]):
    """A checkout has no model until it is made; a source distribution has it."""

    def dependencies(self) -> list[str]:
        """What making the model needs."""
        return [] if bundled_model.intact() else ["numpy>=2.3,<3", "pip", "safetensors>=0.6,<1"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the model, so that the files of the package are whole."""
        bundled_model.ensure()
