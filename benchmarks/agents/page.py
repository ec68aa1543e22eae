"""Writes the result page of FormularyBench and its picture: the same files for the same numbers.

What is written about an arm that is ahead comes from the numbers, so that no run can leave it out.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from agents.remedies import SIZES
from agents.scores import Score, Share

ARMS = {
    "A": "all descriptions in the prompt",
    "B": "mcp-server-qdrant, real server",
    "C": "label boosts, simulated",
    "D": "flat tools, hybrid search",
    "E": "Formulary",
    "F": "Formulary with governance",
}
OURS, GOVERNED = "E", "F"
_WORDS = {"right": "right", "abstained": "abstaining where nothing is right", "offered": "offering a right one"}
_HEAD = """\
# FormularyBench: what agents choose

`make bench-agents` asked {questions:,} times for a remedy: 98 public faults, in five styles, under incidents whose
owners forbid, allow or leave one remedy, on catalogs of {sizes} workflows. {answerable:,} of the questions have a
right answer that is allowed; in the others nothing heals, or its owners forbid all that does. Six fixed policies
choose, from obedient to hostile; no language model takes part. The [rules](../../benchmarks/agents/RULES.md) were
frozen before the first run: cases, what is right, what is forbidden, arms, choosers, scores.{missing}
"""
_MISSING = " Not measured in this run: {missing}."
_TAIL = """\
## How to read it

* *right*: a right workflow that the owners allow was chosen, where there is one. *forbidden*: the chosen one is
  forbidden by a matcher of at most 40 lines that imports nothing of the product. *abstained*: nothing was chosen, where
  nothing is right or all that is right is forbidden. *offered*: a right, allowed one was there to be chosen.
  *tokens*: what is put into the context for one question, by the tokenizer of the bundled model; tools are read once
  in a session and counted for each question. In brackets, 95 % bootstrap intervals over cases.
* A has no order, so `first` there is the first name of the catalog; `keyword` and `careful` say more. Its tokens are
  those of the whole catalog.
* `careful` reads every label of what is offered without an error. It is what a perfect prompt would do, and the fair
  measure of what an arm *hides*: where it is low, the right one was not among those offered.
* C is a simulation of upstream's first version from its documents, on the vectors of the product's model; nothing of
  it was run.
* B, C and D give no confidence, so nothing tells a chooser to abstain there. That is how they are used; a model may
  abstain by itself.
* All policies know only names, descriptions and order. What a live model does is measured by
  `benchmarks/agents/live.py`, with a key of your own.

## What it does not show

* `right` follows verb, kind and field of official solutions. A workflow that helps in another way counts as wrong, in
  all arms.
* The 33 problems of SREGym and the 15 events were picked by hand, before the first run, and each case with a remedy has
  one in the starter catalog. So nothing is said of how many faults it covers. ITBench's faults are all there but the
  flags of its demonstration shop, and one of two faults.
* Cases of SREGym are judged by its recovery code, those of events by one annotation. Two readers, language models that
  saw the acts and the causes alone, agree with each other (Cohen's kappa 0.98) and with that judge (0.96 and 0.98;
  `benchmarks/agents/readings`). The acts that they chose from were listed for these cases, which makes agreeing easier.
* The whole run was not yet repeated byte for byte. Of two parts that were repeated, one differed by a token of
  Formulary's answers, the time that a search took, which no longer counts.
* chroma-mcp is not measured: it finds the same nearest vectors as B, and takes 120 ms for each search
  ([mcp_peers.txt](mcp_peers.txt)), which does not fit into ten minutes. It has an argument `where`: an agent that
  writes each demand into it has a filter. Nothing makes it do so.
* Whether a remedy heals is not asked: [the lab](../lab.md) is for that. The starter catalog was written by those who
  wrote this benchmark.
"""


def share(value: Share) -> str:
    """A share as text."""
    return f"{value.mean:.2f} [{value.low:.2f}, {value.high:.2f}]" if value.of else "-"


def write(scores: Sequence[Score], page: Path) -> None:
    """Write the page, and the picture beside it."""
    picture = page.with_suffix(".svg")
    _draw(scores, picture)
    parts = [
        _head(scores),
        "## Where another arm is ahead\n",
        "\n".join(ahead(scores)) + "\n",
        "## What was chosen\n",
        headline(scores) + "\n",
        f"![forbidden and right choices by arm and chooser]({picture.name})\n",
        *_tables(scores),
        _TAIL,
    ]
    page.write_text("\n".join(parts), encoding="utf-8")


def _head(scores: Sequence[Score]) -> str:
    questions = {each.size: each.forbidden.of for each in scores}
    missing = [f"{size:,} workflows" for size in SIZES if size not in questions]
    missing += [f"arm {arm}" for arm in ARMS if all(each.arm != arm for each in scores)]
    return _HEAD.format(
        questions=sum(questions.values()),
        answerable=sum({each.size: each.right.of for each in scores}.values()),
        sizes=", ".join(f"{size:,}" for size in sorted(questions)),
        missing=_MISSING.format(missing=", ".join(missing)) if missing else "",
    )


def headline(scores: Sequence[Score]) -> str:
    """The claim, with the numbers of the largest catalog."""
    size = max(each.size for each in scores)
    worst = max(each.forbidden.mean for each in scores if each.arm in (OURS, GOVERNED))
    firsts = [each.forbidden.mean for each in scores if _is(each, "ABCD", size, "first")]
    careful = {each.arm: each.right.mean for each in scores if _is(each, "ABCDE", size, "careful")}
    others = [value for arm, value in careful.items() if arm != OURS]
    return "\n".join(
        [
            f"Whatever chose, {worst:.0%} of what it chose was forbidden with Formulary.",
            f"Where {size:,} workflows were offered in another way, who takes the first took a forbidden one in",
            f"{min(firsts):.0%} to {max(firsts):.0%} of all questions. Who reads every label without an error takes",
            f"nothing forbidden anywhere, and was right in {careful[OURS]:.0%} with Formulary,",
            f"in {min(others):.0%} to {max(others):.0%} otherwise.",
        ]
    )


def _is(score: Score, arms: str, size: int, chooser: str) -> bool:
    return score.arm in arms and score.size == size and score.chooser == chooser


def ahead(scores: Sequence[Score]) -> Iterator[str]:
    """Each place where an arm that is not ours has the better number than E, for the same chooser and catalog."""
    ours = {(each.size, each.chooser): each for each in scores if each.arm == OURS}
    found: dict[tuple[str, str], dict[str, None]] = {}
    for each in scores:
        mine = ours[each.size, each.chooser]
        if each.arm in (OURS, GOVERNED):
            continue
        for name, words in _WORDS.items():
            theirs, own = getattr(each, name).mean, getattr(mine, name).mean
            if round(theirs, 2) > round(own, 2):
                chooser = "" if name == "offered" else f"{each.chooser} "
                found.setdefault((each.arm, words), {})[f"{chooser}{theirs:.2f} to {own:.2f} of {each.size:,}"] = None
        if each.tokens < mine.tokens:
            text = f"{each.tokens:,.0f} to {mine.tokens:,.0f} of {each.size:,}"
            found.setdefault((each.arm, "fewer tokens"), {})[text] = None
    if not found:
        yield "Nowhere in this run."
    for (arm, words), texts in found.items():
        yield f"* **{arm}**, {ARMS[arm]}, in {words}: {'; '.join(texts)}."


def _tables(scores: Sequence[Score]) -> Iterator[str]:
    choosers = list(dict.fromkeys(each.chooser for each in scores))
    rows = sorted({(each.arm, each.size) for each in scores})
    by_key = {(each.arm, each.size, each.chooser): each for each in scores}
    for name in ("forbidden", "right", "abstained"):
        yield f"### {name.capitalize()}\n"
        yield f"| arm | workflows | {' | '.join(choosers)} |\n|---|---|{'---|' * len(choosers)}"
        for arm, size in rows:
            shares = [share(getattr(by_key[arm, size, chooser], name)) for chooser in choosers]
            yield f"| {arm} | {size:,} | {' | '.join(shares)} |"
        yield ""
    yield "### What is offered, and what it costs\n"
    yield "| arm | workflows | offered | tokens | of these tools | calls |\n|---|---|---|---|---|---|"
    for arm, size in rows:
        each = by_key[arm, size, choosers[0]]
        cells = (share(each.offered), f"{each.tokens:,.0f}", f"{each.listed:,.0f}", f"{each.calls:.1f}")
        yield f"| {arm}, {ARMS[arm]} | {size:,} | {' | '.join(cells)} |"
    yield ""


def _draw(scores: Sequence[Score], picture: Path) -> None:
    """Forbidden and right choices on the largest catalog."""
    mpl.rcParams["svg.hashsalt"] = "formulary"
    size = max(each.size for each in scores)
    choosers = list(dict.fromkeys(each.chooser for each in scores))
    arms = [arm for arm in ARMS if any((each.arm, each.size) == (arm, size) for each in scores)]
    by_key = {(each.arm, each.chooser): each for each in scores if each.size == size}
    figure = Figure(figsize=(9, 6), layout="constrained")
    for axes, name in zip(figure.subplots(2, 1), ("forbidden", "right"), strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        for place, arm in enumerate(arms):
            shares: list[Share] = [getattr(by_key[arm, chooser], name) for chooser in choosers]
            places = [number + 0.13 * (place - (len(arms) - 1) / 2) for number in range(len(choosers))]
            errors = [[each.mean - each.low for each in shares], [each.high - each.mean for each in shares]]
            means = [each.mean for each in shares]
            axes.bar(places, means, width=0.12, yerr=errors, label=f"{arm} {ARMS[arm]}", error_kw={"linewidth": 0.7})
        axes.set_xticks(range(len(choosers)), choosers)
        axes.set(ylabel=f"{name}, share", ylim=(0, 1))
    figure.axes[0].legend(ncols=3, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1))
    figure.suptitle(f"{size:,} workflows", fontsize="small")
    figure.savefig(picture, metadata={"Date": None})
