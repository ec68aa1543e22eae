"""FormularyBench: what agents choose, right or forbidden, by how remedies are offered to them. No language model.

`agents/RULES.md` has the rules. Writes docs/benchmarks/agents.md and its picture with `--page`, and the questions with
what each arm offers as JSON lines with `--questions`, for `agents/live.py`.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agents import page
from agents.arms import Arm, Index, Offer, Tokens, boosted, flat_tools, in_prompt, told
from agents.choosers import CHOOSERS, words
from agents.live import as_line
from agents.questions import Case, Judge, Question, cases, questions, sample
from agents.remedies import SIZES, Remedy, catalog
from agents.scores import Accepts, Score, Tally, outcomes, scores, tallies
from agents.servers import formulary, vector_server
from formulary_catalog.embedding import Embedder, load_embedder
from peer_servers import CHROMA, QDRANT

GOVERNED = 500
"""The catalog on which F is measured. A larger one is asked about the sample alone."""
Answered = list[tuple[Question, Offer]]


def measure(size: int, among: Sequence[Case], *, embedder: Embedder, lines: list[str]) -> Iterator[Tally]:
    """All arms and choosers on one catalog, asked of some cases."""
    remedies = catalog(size)
    judge, tokens = Judge(remedies), Tokens()
    asked = questions(judge, among if size <= GOVERNED else sample(among))
    incidents = [each for case in cases() for each in judge.incidents(case)]
    split = {each.name: words(each.text) for each in remedies}
    with ExitStack() as stack:
        arms = _arms(remedies, asked, embedder=embedder, tokens=tokens)
        arms["B"] = stack.enter_context(vector_server(QDRANT, remedies, tokens))
        if size == SIZES[0]:
            arms["B2"] = stack.enter_context(vector_server(CHROMA, remedies, tokens))
        server = stack.enter_context(formulary(remedies, incidents, tokens))
        arms["E"] = server.offer
        trying: dict[str, Accepts] = {"F": server.accepts} if size == GOVERNED else {}
        for name in sorted({*arms, *trying}):
            started = time.monotonic()
            if name in arms:  # F chooses among what E offers
                answered = [(each, arms[name](each)) for each in (asked if name != "B2" else _sampled(asked))]
                if name != "A":  # would repeat the whole catalog in each line
                    lines += (
                        as_line(size, name, question, offer, allowed=judge.allowed(question.incident.demand))
                        for question, offer in answered
                    )
            for chooser in CHOOSERS:
                found = outcomes(answered, chooser, judge=judge, words=split, accepts=trying.get(name))
                yield from tallies(found, size=size, arm=name, chooser=chooser)
            _took(f"{size:,} workflows, {name}, {len(answered):,} questions", started)


def _sampled(asked: Sequence[Question]) -> list[Question]:
    """The questions of the cases of the sample."""
    among = {each.id for each in sample(cases())}
    return [each for each in asked if each.incident.case.id in among]


def _arms(
    remedies: Sequence[Remedy], asked: Sequence[Question], *, embedder: Embedder, tokens: Tokens
) -> dict[str, Arm]:
    index = Index(remedies, embedder=embedder, asked=[told(each) for each in asked])
    return {
        "A": in_prompt(remedies, tokens),
        "C": boosted(index, tokens),
        "D": flat_tools(index, tokens),
    }


def report(found: Sequence[Score]) -> None:
    """Print a table."""
    table = Table("workflows", "arm", "chooser", "right", "forbidden", "abstained", "offered", "tokens", "calls")
    for each in found:
        shares = (each.right, each.forbidden, each.abstained, each.offered)
        table.add_row(
            f"{each.size:,}",
            each.arm,
            each.chooser,
            *(page.share(one) for one in shares),
            f"{each.tokens:,.0f}",
            f"{each.calls:.1f}",
        )
    Console(width=140).print(table)


def main() -> None:
    """Measure once; print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--page", type=Path, help="the page to write; its picture goes beside it")
    parser.add_argument("--questions", type=Path, help="file for the questions with what each arm offers")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="workflows (default: %(default)s)")
    parser.add_argument(
        "--cases", type=int, nargs=2, default=(0, None), metavar=("FROM", "TO"), help="places of the cases to ask"
    )
    parser.add_argument("--read", type=Path, nargs="+", default=(), help="measure nothing: take these numbers together")
    options = parser.parse_args()
    lines: list[str] = []
    if options.read:
        written = (each for file in options.read for each in json.loads(file.read_text(encoding="utf-8")))
        counted = [Tally(**each) for each in written]
    else:
        counted = _measured(options.sizes, cases()[slice(*options.cases)], lines=lines)
    report(scores(counted))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(each) for each in counted], indent=1) + "\n", encoding="utf-8")
    if options.questions is not None:
        descriptions = {each.name: each.text for each in catalog(max(options.sizes))}
        lines.insert(0, json.dumps({"descriptions": descriptions}))
        options.questions.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if options.page is not None:
        page.write(counted, options.page)


def _measured(sizes: Sequence[int], among: Sequence[Case], *, lines: list[str]) -> list[Tally]:
    embedder = load_embedder()
    counted: list[Tally] = []
    for size in sizes:
        started = time.monotonic()
        counted += measure(size, among, embedder=embedder, lines=lines)
        _took(f"{size:,} workflows", started)
    return counted


def _took(what: str, started: float) -> None:
    Console(stderr=True).print(f"{what}: {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
