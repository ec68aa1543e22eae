"""Steps as text, for skills and documents: numbered lines of Markdown, the command of each below it."""

from collections.abc import Iterable, Mapping

from formulary_catalog.domain.text import one_line

_CODE = " " * 8
"""Makes a line below a numbered step code, whatever marks it holds."""


def written_steps(steps: Iterable[Mapping[str, str]]) -> str:
    """The steps by the parts `name`, `description` and `command` as far as they have them; a line says one step."""
    return "\n".join(_step(number, step) for number, step in enumerate(steps, start=1))


def _step(number: int, step: Mapping[str, str]) -> str:
    said = ": ".join(one_line(step[part]) for part in ("name", "description") if step.get(part))
    command = "\n".join(f"{_CODE}{line}" for line in step.get("command", "").splitlines())
    return f"{number}. {said}\n\n{command}" if command else f"{number}. {said}"
