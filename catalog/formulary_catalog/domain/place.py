"""Where in a workflow a word occurs. Apart from the ranking, so that reading manifests does not load numpy."""

from enum import IntEnum


class Place(IntEnum):
    """Where in a workflow a term of the query occurs, all words of it; of several places the most telling one."""

    NONE = 0
    SIGNAL = 1
    """A signal type that it declares."""
    WHAT = 2
    WHEN_TO_USE = 3
    NAME = 4
    """Its name, title, keywords or action type."""


PLACE_WEIGHTS = (0.0, 0.5, 1.0, 1.0, 1.4)
"""What it counts where a part of the query is found, by `Place`: nowhere, signal type, what, when to use, name."""
