"""Reads a pasted query as the problems that it reports.

`search.query` and `kernel.search.notes` call it. Lines without markup (`markup`) are read as alerts (`alerts`), then as
what kubectl prints (`objects`); what is left was written by a person. The evidence of objects belongs to the alert that
it explains: a cause then takes its name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from formulary_catalog.domain.pasted.alerts import Alert, read_alerts
from formulary_catalog.domain.pasted.markup import plain_lines
from formulary_catalog.domain.pasted.objects import Observed, observe
from formulary_catalog.domain.pasted.problems import Finding, Problem, canonical, finding, is_compound, joined, rank
from formulary_catalog.domain.text import cut_at_word
from formulary_catalog.domain.workflows.labels import SEVERITIES, fold

_MAX_NAME = 100
_PUNCTUATION = "([{<>\"'`:,;.!?)]}*-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pasted:
    """What a query reports. `problems`: at least one, in the order of the text, those that fire if any does; for plain
    words one that is the text. `is_over`: whether its alerts are resolved. `machine`: whether a program printed it."""

    problems: tuple[Problem, ...]
    is_over: bool = False
    machine: bool = False


@lru_cache(maxsize=256)
def read_pasted(query: str) -> Pasted:
    """The problems of a query."""
    lines = plain_lines(query)
    alerts, rest = read_alerts(lines)
    typed = None if alerts else _typed(lines)
    seen = observe(rest[1:] if typed else rest)
    if not alerts:
        if typed is None or not (seen.printed or seen.hosted):
            problem = _of_objects(seen) if typed is None else None
            said = seen.prose if seen.printed and len(lines) > 1 else []
            plain = Problem(words="\n".join(said or lines))
            return Pasted(problems=(problem or plain,), machine=seen.printed or bool(problem))
        return Pasted(problems=(_with_evidence(typed, seen, keeps_name=True),), machine=True)
    firing = [each for each in alerts if each.state != "resolved"]
    problems = [_of_alert(each) for each in firing or alerts]
    explained = next((number for number, each in enumerate(problems) if rank(each.name) > 1), 0)
    problems[explained] = _with_evidence(problems[explained], seen)
    return Pasted(problems=tuple(dict.fromkeys(problems)), is_over=not firing, machine=True)


def _of_alert(alert: Alert) -> Problem:
    name = cut_at_word(alert.name, limit=_MAX_NAME)
    named = Problem(name=name, severity=alert.severity, words=joined(alert.words))
    if " " in name and (signal := next(filter(None, map(canonical, [*name.split(), alert.reason])), "")):
        return replace(named, name=signal, words=joined([name, *alert.words]))
    caused = _caused(named, [finding(alert.reason)])
    if caused.name != named.name:
        return replace(caused, words=joined([named.name, named.words]))
    return replace(named, words=joined([*alert.words, alert.reason]))


def _typed(lines: Sequence[str]) -> Problem | None:
    """The first line if it begins with a name, as the grammar of queries has it."""
    first = next((line.split() for line in lines if line.strip()), [])
    word = first[0].strip(_PUNCTUATION) if first else ""
    if not is_compound(word) or (first[0].endswith(":") and len(first) == 1):
        return None
    second = fold(first[1].strip(_PUNCTUATION)) if len(first) > 1 else ""
    severity = second if second in SEVERITIES else ""
    return Problem(name=word, severity=severity, words=" ".join(first[2:] if severity else first[1:]))


def _of_objects(seen: Observed) -> Problem | None:
    """The problem of what was printed without an alert; None where all is well."""
    if not (seen.findings or seen.normal or seen.hosted or seen.logged):
        return None
    problem = _with_evidence(Problem(), seen)
    return problem if problem.name or problem.words else None


def _with_evidence(problem: Problem, seen: Observed, *, keeps_name: bool = False) -> Problem:
    findings = seen.findings or ([] if problem.name else seen.normal)
    alert = problem.name
    if not keeps_name:
        problem = _caused(problem, findings)
    ordered = sorted(findings, key=lambda each: each.rank)
    said = [each.said for each in ordered]
    prose = " ".join(line.strip() for line in seen.prose)
    names = [
        each for each in dict.fromkeys([alert, *(each.name for each in ordered)]) if each not in {"", problem.name}
    ]
    evidence = [*names, *said, *seen.logged, *seen.hosted]
    is_caused = alert not in {"", problem.name}
    words = joined([prose, *evidence, problem.words] if is_caused else [problem.words, prose, *evidence])
    return replace(problem, words=words)


def _caused(problem: Problem, findings: Sequence[Finding]) -> Problem:
    """The problem by the name of its cause, if the findings name one."""
    best = min((each for each in findings if each.name), key=lambda each: each.rank, default=None)
    if best is None or rank(problem.name) <= 1 or best.rank >= rank(problem.name):
        return problem
    return replace(problem, name=best.name)
