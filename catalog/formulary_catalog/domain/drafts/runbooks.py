"""Drafts from Markdown: runbooks, `SKILL.md` files, and runbooks of HolmesGPT.

`loading/drafting` calls it. The heading of a section says what it is for; each block of shell commands is a
step, named by the text above it. Nothing in the text is run or fetched.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from formulary_catalog.domain.drafts.commands import ANGLED, merged, with_variables
from formulary_catalog.domain.drafts.draft import Draft, DraftStep
from formulary_catalog.domain.knowledge.markdown import front_matter
from formulary_catalog.domain.text import cut_at_word, one_line, split_camel_case, words
from formulary_catalog.domain.workflows.labels import CANONICAL_BY_FOLD, fold

_SHELLS = frozenset({"", "sh", "bash", "shell", "zsh", "console", "shell-session", "terminal"})
_COMMAND = re.compile(
    r"\s*(?:[$#%]\s+)?(?:sudo\s+)?(?:kubectl|helm|oc|flux|argocd|aws|gcloud|az|systemctl|crictl|curl|psql)\b"
)
_PROMPT = re.compile(r"^\s*[$%]\s+")
_WHEN_NOT = re.compile(r"\bnot\b|don'?t|exclu", re.IGNORECASE)
_PARTS = (
    ("rollback", re.compile(r"roll\s?back|undo|revert|back\s?out", re.IGNORECASE)),
    ("when_to_use", re.compile(r"when|symptom|trigger|alert|detect|goal|meaning|problem", re.IGNORECASE)),
    ("preconditions", re.compile(r"prerequisite|precondition|require|before", re.IGNORECASE)),
    ("what", re.compile(r"overview|summary|description|about|purpose|impact", re.IGNORECASE)),
)
"""What a section says, by its heading; the first that fits. Others hold steps."""
_LEFT_OUT = re.compile(
    r"\W*(?:(?:possible|common|likely|potential|root) causes?|causes?|references?|links|see also|further reading"
    r"|(?:additional|related) resources|changelog|owners?)\W*",
    re.IGNORECASE,
)
"""Headings of sections that are no part of a workflow."""
_UNWRITTEN = frozenset({"todo", "tbd", "n/a", "none", "wip"})
_ALERT = re.compile(r"\b(?:Kube|Node|etcd|CoreDNS|Prometheus|Alertmanager)[A-Z][a-z]+\w*")
_MAX_STEPS = 60
_MAX_STEP_NAME = 50
_MIN_CAMEL = 2


@dataclass(slots=True)
class _Section:
    """A heading with its texts, and its steps: points of lists, and blocks of commands with what stands above them."""

    heading: str = ""
    texts: list[str] = field(default_factory=list)
    steps: list[DraftStep] = field(default_factory=list)
    has_blocks: bool = False


def draft_of_markdown(text: str, *, source: str) -> Draft:
    """The draft of a runbook or a skill."""
    matter, body = front_matter(text.replace("\r\n", "\n"))
    title, sections = _sections(MarkdownIt("commonmark").enable("table").parse(body))
    draft = Draft(title=matter.title or title or source.rpartition("/")[2].rpartition(".")[0], source=source)
    draft.when_to_use = matter.description
    draft.keywords = [*matter.keywords]
    for section in sections:
        _add(draft, section)
    draft.what = draft.what or f"{draft.title}."
    draft.signals = _signals(f"{draft.title} {title} {draft.when_to_use} {' '.join(matter.keywords)}")
    draft.keywords = [each for each in draft.keywords if each not in draft.signals]
    _finish(draft)
    return draft


def draft_of_holmes(runbook: Mapping[str, Any], *, source: str) -> Draft:
    """The draft of an entry of a YAML file of HolmesGPT: `match`, `instructions`."""
    match = runbook.get("match")
    named = match.get("issue_name") if isinstance(match, Mapping) else None
    name = re.sub(r"[^\w.-]+", " ", named).strip(" .") if isinstance(named, str) else ""
    instructions = runbook.get("instructions")
    draft = draft_of_markdown(instructions if isinstance(instructions, str) else "", source=source)
    draft.title = f"Runbook for {name}" if name else draft.title
    draft.when_to_use = draft.when_to_use or (f"{name} fires." if name else "")
    draft.what = one_line(instructions) if isinstance(instructions, str) else draft.what
    draft.signals = list(dict.fromkeys([*(each for each in name.split() if _ALERT.fullmatch(each)), *draft.signals]))
    return draft


def _sections(tokens: Sequence[Token]) -> tuple[str, list[_Section]]:
    """The first heading of the first level, and the sections in order; headings in lists and quotes are text."""
    title = ""
    sections = [_Section()]
    item = ""
    for number, token in enumerate(tokens):
        section = sections[-1]
        listed = token.level > 0
        if token.type == "heading_open" and token.level == 0:
            heading = _words_of(tokens[number + 1])
            if token.tag == "h1" and not title:
                title = heading
                sections.append(_Section())
            else:
                sections.append(_Section(heading=heading))
            item = ""
        elif token.type == "inline" and not tokens[number - 1].type.startswith("heading"):
            item = _words_of(token).rstrip(":")
            if item.casefold() in _UNWRITTEN:
                continue
            section.texts.append(item)
            commands = [*_inline_steps(token, item)]
            section.steps += commands or ([DraftStep(name="", description=item)] if token.level > 1 and item else [])
        elif token.type in ("bullet_list_close", "ordered_list_close") and not listed:
            item = ""
        elif token.type in ("fence", "code_block") and (command := _command(token)):
            if section.steps and section.steps[-1] == DraftStep(name="", description=item):
                section.steps.pop()
            if section.texts and section.texts[-1] == item:
                section.texts.pop()
            section.steps.append(DraftStep(name="", description=item or section.heading, command=command))
            section.has_blocks = True
    return title, sections


def _inline_steps(inline: Token, item: str) -> Iterator[DraftStep]:
    """Commands that stand in the text itself."""
    for child in inline.children or []:
        if child.type == "code_inline" and _COMMAND.match(child.content) and " " in child.content.strip():
            yield DraftStep(name="", description=item, command=_PROMPT.sub("", child.content.strip()))


def _command(token: Token) -> str:
    """The commands of a block; empty where it holds none, such as a manifest or an output."""
    language = (token.info.split() or [""])[0].casefold() if token.info else ""
    lines = token.content.rstrip("\n").split("\n")
    if language not in _SHELLS or not (language or any(map(_COMMAND.match, lines))):
        return ""
    if any(map(_PROMPT.match, lines)):  # a session: what has no prompt is output
        lines = [_PROMPT.sub("", line) for line in lines if _PROMPT.match(line)]
    return "\n".join(map(str.rstrip, lines)).strip("\n")


def _add(draft: Draft, section: _Section) -> None:
    part = next((part for part, pattern in _PARTS if pattern.search(section.heading)), "")
    if part == "when_to_use" and _WHEN_NOT.search(section.heading):
        part = "when_not_to_use"
    text = " ".join(section.texts)
    if part == "rollback":
        draft.rollback += section.steps or [DraftStep(name="", description=each) for each in section.texts]
    elif part:
        setattr(draft, part, " ".join(filter(None, (getattr(draft, part), text))))
        draft.steps += [step for step in section.steps if step.command] if section.has_blocks else []
    elif _LEFT_OUT.fullmatch(section.heading) and not section.has_blocks:
        draft.undecided.append(f"section {section.heading}")
    elif not section.heading:
        draft.what = draft.what or text
        draft.steps += [step for step in section.steps if step.command]
    else:
        draft.steps += section.steps or [DraftStep(name="", description=each) for each in section.texts]


def _finish(draft: Draft) -> None:
    """Name the steps, and make parameters of what they leave open."""
    if len(draft.steps) > _MAX_STEPS:
        draft.undecided.append(f"{len(draft.steps) - _MAX_STEPS} further steps")
        draft.steps = draft.steps[:_MAX_STEPS]
    draft.steps, draft.rollback = ([*finished(draft, some)] for some in (draft.steps, draft.rollback[:_MAX_STEPS]))


def finished(draft: Draft, steps: Sequence[DraftStep], *, notation: re.Pattern[str] = ANGLED) -> Iterator[DraftStep]:
    """The steps with names of their own and with variables, which the draft gets as parameters."""
    taken: dict[str, int] = {}
    for step in steps:
        command, found = with_variables(step.command, notation=notation)
        draft.parameters = merged(draft.parameters, found)
        name = _step_name(step.name or step.description)
        taken[name] = taken.get(name, 0) + 1
        yield DraftStep(
            name=name if taken[name] == 1 else f"{name}-{taken[name]}", description=step.description, command=command
        )


def _step_name(text: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", " ", cut_at_word(one_line(text).casefold(), limit=_MAX_STEP_NAME)).split()
    return "-".join(slug) or "step"


def _signals(text: str) -> list[str]:
    """Canonical signals and names of alerts, in the order in which they are named."""
    found = [
        canonical or word
        for word in words(text)
        if (canonical := CANONICAL_BY_FOLD.get(fold(word), "")) or _ALERT.fullmatch(word)
        if len(split_camel_case(word)) >= _MIN_CAMEL
    ]
    return list(dict.fromkeys(found))


def _words_of(inline: Token) -> str:
    parts = [
        " " if child.type in ("softbreak", "hardbreak") else child.content
        for child in inline.children or []
        if child.type in ("text", "code_inline", "softbreak", "hardbreak")
    ]
    return one_line("".join(parts))
