"""Reads what people have, and drafts workflows from it; `formulary draft` calls it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from formulary_catalog.domain.drafts.automation import draft_of_rundeck, draft_of_ssm, is_rundeck, is_ssm
from formulary_catalog.domain.drafts.draft import Draft, manifest_of
from formulary_catalog.domain.drafts.runbooks import draft_of_holmes, draft_of_markdown
from formulary_catalog.domain.entry import catalog_entry, require_visible
from formulary_catalog.domain.knowledge.markdown import MAX_RUNBOOK_BYTES
from formulary_catalog.errors import InvalidInput, InvalidManifest
from formulary_catalog.loading.documents import Rejection, read_text
from formulary_catalog.loading.syntax import SyntaxProblem, parse_json, parse_yaml

_MARKDOWN, _YAML = (".md", ".markdown"), (".yaml", ".yml", ".json")
_READ = (
    "a Markdown runbook or SKILL.md, a runbook file of HolmesGPT, a document of AWS Systems Manager with mainSteps, or "
    "a Rundeck job with a sequence, in YAML or JSON"
)
_NAMESPACE = "formulary"  # only where validation asks for one


def drafts_of_file(path: Path) -> str:
    """The manifests that a file becomes, as one YAML text.

    Raises:
        InvalidInput: it cannot be read, or is nothing that a draft is made of.
    """
    name = path.name
    text = read_text(path, name=name)
    if isinstance(text, Rejection):
        raise InvalidInput(text.message, field="file")
    if len(text) > MAX_RUNBOOK_BYTES:
        raise _refused(name, f"has more than {MAX_RUNBOOK_BYTES} characters; split it")
    if path.suffix in _MARKDOWN:
        drafts = [draft_of_markdown(text, source=_called(path))]
    elif path.suffix in _YAML:
        drafts = [*_of_data(_parsed(text, path=path), path=path)]
    else:
        raise _refused(name, f"is none of the files that are read: {_READ}")
    if not any(each.steps for each in drafts):
        raise _refused(name, "has no steps: no commands, and no sections that say what to do")
    manifests = [manifest_of(each) for each in drafts]
    for manifest in manifests:
        _check(manifest, name=name)
    return "---\n".join(manifests)


def _of_data(document: object, *, path: Path) -> Iterator[Draft]:
    name = path.name
    several = document if isinstance(document, list) else [document]
    if is_ssm(document) and isinstance(document, Mapping):
        yield draft_of_ssm(document, source=name, title=path.stem)
    elif several and all(map(is_rundeck, several)):
        yield from (draft_of_rundeck(cast("Mapping[str, Any]", job), source=name) for job in several)
    elif isinstance(document, Mapping) and isinstance(runbooks := document.get("runbooks"), list):
        yield from (draft_of_holmes(each, source=name) for each in runbooks if isinstance(each, Mapping))
    elif isinstance(document, Mapping) and isinstance(catalog := document.get("catalog"), list):
        links = [str(each["link"]) for each in catalog if isinstance(each, Mapping) and "link" in each]
        raise _refused(name, f"is a catalog of runbooks; draft from its files: {', '.join(links)}")
    else:
        raise _refused(name, f"is nothing that a draft is made of; give {_READ}")


def _parsed(text: str, *, path: Path) -> Any:
    try:
        return parse_json(text) if path.suffix == ".json" else parse_yaml(text)
    except SyntaxProblem as problem:
        raise _refused(path.name, str(problem)) from None


def _called(path: Path) -> str:
    """The name of the file, with that of its directory where all files have that name."""
    return f"{path.parent.name}/{path.name}" if path.stem.upper() == "SKILL" and path.parent.name else path.name


def _check(manifest: str, *, name: str) -> None:
    """A draft that is refused would help nobody."""
    try:
        document = cast("Mapping[str, Any]", parse_yaml(manifest))
        require_visible(catalog_entry(document, source=name, default_namespace=_NAMESPACE))
    except (InvalidManifest, SyntaxProblem) as error:
        raise InvalidInput(f"no valid workflow can be drafted from it: {error}", field="file") from None


def _refused(name: str, problem: str) -> InvalidInput:
    return InvalidInput(f"{name}: {problem}", field="file")
