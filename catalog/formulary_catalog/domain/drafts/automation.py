"""Drafts from automation that people have: documents of AWS Systems Manager, and jobs of Rundeck.

`loading/drafting` calls it. What only the other program can do is named, and is a step without a command.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from formulary_catalog.domain.drafts.commands import BRACED, OPTION, Placeholder, variable_name
from formulary_catalog.domain.drafts.draft import Draft, DraftStep
from formulary_catalog.domain.drafts.runbooks import finished

_SHELL_ACTIONS = ("aws:runShellScript",)


def is_ssm(document: object) -> bool:
    """Whether it is a document of Systems Manager."""
    return isinstance(document, Mapping) and "schemaVersion" in document and "mainSteps" in document


def is_rundeck(document: object) -> bool:
    """Whether it is a job of Rundeck."""
    return isinstance(document, Mapping) and isinstance(document.get("sequence"), Mapping | list)


def draft_of_ssm(document: Mapping[str, Any], *, source: str, title: str) -> Draft:
    """The draft of a Command or Automation document."""
    draft = Draft(title=title, source=source, what=_text(document.get("description")))
    draft.parameters = [*_ssm_parameters(_mapping(document.get("parameters")))]
    steps = [_ssm_step(each, draft) for each in _mappings(document.get("mainSteps"))]
    draft.steps = [*finished(draft, steps, notation=BRACED)]
    return draft


def draft_of_rundeck(job: Mapping[str, Any], *, source: str) -> Draft:
    """The draft of a job."""
    draft = Draft(title=_text(job.get("name")) or "Rundeck job", source=source, what=_text(job.get("description")))
    draft.parameters = [*_rundeck_options(_mappings(job.get("options")))]
    sequence = job.get("sequence")
    commands = sequence if isinstance(sequence, list) else _mapping(sequence).get("commands")
    steps = [_rundeck_step(each, draft) for each in _mappings(commands)]
    draft.steps = [*finished(draft, steps, notation=OPTION)]
    return draft


def _ssm_parameters(parameters: Mapping[str, Any]) -> Iterator[Placeholder]:
    for name, about in parameters.items():
        about = _mapping(about)
        default = about.get("default")
        yield Placeholder(
            name=variable_name(str(name)),
            written=f"{{{{ {name} }}}}",
            description=_text(about.get("description")),
            default=_scalar(default) if isinstance(default, str | int | float) else None,
            choices=tuple(map(_scalar, _sequence(about.get("allowedValues")))),
            pattern=_text(about.get("allowedPattern")),
        )


def _ssm_step(step: Mapping[str, Any], draft: Draft) -> DraftStep:
    action, inputs = _text(step.get("action")), _mapping(step.get("inputs"))
    name = _text(step.get("name")) or action
    if action in _SHELL_ACTIONS:
        commands = inputs.get("runCommand", inputs.get("commands"))
        lines = [commands] if isinstance(commands, str) else [str(each) for each in _sequence(commands)]
        return DraftStep(name=name, description=_text(step.get("description")), command="\n".join(lines))
    what = " ".join(str(inputs[each]) for each in ("Service", "Api", "DocumentName") if each in inputs)
    said = f"{action} {what}".strip()
    draft.undecided.append(f"step {name}: {said}")
    return DraftStep(name=name, description=f"{_text(step.get('description'))} (was {said})".strip())


def _rundeck_options(options: list[Mapping[str, Any]]) -> Iterator[Placeholder]:
    for option in options:
        name, default = _text(option.get("name")), option.get("value")
        yield Placeholder(
            name=variable_name(name),
            written=f"${{option.{name}}}",
            description=_text(option.get("description")) or _text(option.get("label")),
            default=_scalar(default) if isinstance(default, str | int | float) and not option.get("secure") else None,
            choices=tuple(_scalar(each) for each in _sequence(option.get("values")) if option.get("enforced")),
            pattern=_text(option.get("regex")),
            sensitive=bool(option.get("secure")),
        )


def _rundeck_step(step: Mapping[str, Any], draft: Draft) -> DraftStep:
    description = _text(step.get("description"))
    command = step.get("exec") or step.get("script") or _mapping(step.get("configuration")).get("command")
    if isinstance(command, str):
        return DraftStep(name=description, description=description, command=command.rstrip("\n"))
    said = _text(_mapping(step.get("jobref")).get("name")) or _text(step.get("type")) or _text(step.get("scripturl"))
    draft.undecided.append(f"step {description or said}: {said or 'no command'}")
    return DraftStep(name=description or said, description=f"{description} (was {said})".strip())


def _text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _scalar(value: Any) -> str:
    """As YAML and JSON write it: a shell compares with `true`."""
    return str(value).casefold() if isinstance(value, bool) else str(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in _sequence(value) if isinstance(each, Mapping)]
