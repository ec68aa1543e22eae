"""Writes the result page of FormularyBench and its picture: the same files for the same numbers.

`page.md` has its words. What is written about an arm that is ahead comes from the numbers, so that no run can leave it
out. `bench_agents.py` calls it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

import matplotlib as mpl
from matplotlib.figure import Figure

from agents.healed_table import ARMS, healed
from agents.remedies import HERE, SIZES
from agents.scores import Key, Score, Share, Tally, on_the_cases_of, scores

OURS, GOVERNED = "E", "F"
OTHERS = tuple(arm for arm in ARMS if arm not in (OURS, GOVERNED))
_WORDS = {
    "right": "chooses right more often",
    "abstained": "abstains more often where nothing is right",
    "offered": "offers a right remedy more often",
}
_HEADLINE = """\
With Formulary, {worst:.0%} of the choices were forbidden, for every chooser. With {size:,} workflows offered in another
way, the first one was forbidden in {low:.0%} to {high:.0%} of the questions. A chooser that reads every label without
an error never takes a forbidden one. Of the questions with a right remedy that the owners allow, it was right in
{ours:.0%} with Formulary, in {least:.0%} to {most:.0%} otherwise."""
_SAMPLED = "The catalog of 5,000 is asked about each third fault."
_MISSING = " Not measured in this run: {missing}."


def share(value: Share) -> str:
    """A share as text."""
    return f"{value.mean:.2f} [{value.low:.2f}, {value.high:.2f}]" if value.of else "-"


def write(counted: Sequence[Tally], page: Path) -> None:
    """Write the page, and the picture beside it."""
    found, picture = scores(counted), page.with_suffix(".svg")
    _draw(found, picture)
    questions = {each.size: each.forbidden.of for each in found if each.arm == OURS}
    missing = [f"{size:,} workflows" for size in SIZES if size not in questions]
    missing += [f"arm {arm}" for arm in ARMS if all(each.arm != arm for each in found)]
    answerable = {each.size: each.right.of for each in found if each.arm == OURS}
    text = Template((HERE / "page.md").read_text(encoding="utf-8")).substitute(
        questions=f"{sum(questions.values()):,}",
        sizes=_listed([f"{size:,}" for size in sorted(questions)]),
        sampled=_SAMPLED if max(questions) > SIZES[1] else "",
        answerable=f"{sum(answerable.values()):,}",
        missing=_MISSING.format(missing=", ".join(missing)) if missing else "",
        ahead="\n".join(ahead(found, on_the_cases_of(counted, ours=OURS))),
        headline=headline(found),
        picture=picture.name,
        **{name: "\n".join(_table(found, name)) for name in ("forbidden", "right", "abstained")},
        costs="\n".join(_costs(found)),
        healed="\n".join(healed()),
    )
    page.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")


def headline(found: Sequence[Score]) -> str:
    """The claim, with the numbers of the largest catalog."""
    size = max(each.size for each in found)
    worst = max(each.forbidden.mean for each in found if each.arm in (OURS, GOVERNED))
    firsts = [each.forbidden.mean for each in found if _is(each, OTHERS, size, "first")]
    careful = {each.arm: each.right.mean for each in found if _is(each, (*OTHERS, OURS), size, "careful")}
    others = [value for arm, value in careful.items() if arm != OURS]
    return _HEADLINE.format(
        worst=worst,
        size=size,
        low=min(firsts),
        high=max(firsts),
        ours=careful[OURS],
        least=min(others),
        most=max(others),
    )


def _is(score: Score, arms: Sequence[str], size: int, chooser: str) -> bool:
    return score.arm in arms and score.size == size and score.chooser == chooser


def ahead(found: Sequence[Score], ours: dict[Key, Score]) -> Iterator[str]:
    """Each place where an arm that is not ours has a better number than E, for the same chooser, catalog and cases."""
    better: dict[tuple[str, str], dict[str, None]] = {}
    for each in found:
        if each.arm in (OURS, GOVERNED):
            continue
        mine = ours[each.key]
        for name, words in _WORDS.items():
            theirs, own = getattr(each, name).mean, getattr(mine, name).mean
            if round(theirs, 2) > round(own, 2):
                chooser = "" if name == "offered" else f"{each.chooser} "
                text = f"{chooser}{theirs:.2f} against {own:.2f} with {each.size:,}"
                better.setdefault((each.arm, words), {})[text] = None
        if each.tokens < mine.tokens:
            text = f"{each.tokens:,.0f} against {mine.tokens:,.0f} with {each.size:,}"
            better.setdefault((each.arm, "takes fewer tokens"), {})[text] = None
    if not better:
        yield "Nowhere in this run."
    for (arm, words), texts in better.items():
        yield f"* **{arm}**, {ARMS[arm]}, {words} than Formulary: {'; '.join(texts)}."


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _table(found: Sequence[Score], name: str) -> Iterator[str]:
    choosers = list(dict.fromkeys(each.chooser for each in found))
    by_key = {each.key: each for each in found}
    yield f"| arm | workflows | {' | '.join(choosers)} |\n|---|---|{'---|' * len(choosers)}"
    for arm, size in _rows(found):
        shares = [share(getattr(by_key[size, arm, chooser], name)) for chooser in choosers]
        yield f"| {arm} | {size:,} | {' | '.join(shares)} |"


def _costs(found: Sequence[Score]) -> Iterator[str]:
    by_row = {(each.arm, each.size): each for each in reversed(found)}
    yield "| arm | workflows | offered | tokens | of these tools | calls |\n|---|---|---|---|---|---|"
    for arm, size in _rows(found):
        each = by_row[arm, size]
        cells = (share(each.offered), f"{each.tokens:,.0f}", f"{each.listed:,.0f}", f"{each.calls:.1f}")
        yield f"| {arm}, {ARMS[arm]} | {size:,} | {' | '.join(cells)} |"


def _rows(found: Sequence[Score]) -> list[tuple[str, int]]:
    return sorted({(each.arm, each.size) for each in found})


def _draw(found: Sequence[Score], picture: Path) -> None:
    """Forbidden and right choices on the largest catalog."""
    mpl.rcParams["svg.hashsalt"] = "formulary"
    size = max(each.size for each in found)
    choosers = list(dict.fromkeys(each.chooser for each in found))
    arms = [arm for arm in ARMS if any((each.arm, each.size) == (arm, size) for each in found)]
    by_key = {each.key: each for each in found}
    figure = Figure(figsize=(9, 6), layout="constrained")
    for axes, name in zip(figure.subplots(2, 1), ("forbidden", "right"), strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        for place, arm in enumerate(arms):
            shares: list[Share] = [getattr(by_key[size, arm, chooser], name) for chooser in choosers]
            places = [number + 0.13 * (place - (len(arms) - 1) / 2) for number in range(len(choosers))]
            errors = [[each.mean - each.low for each in shares], [each.high - each.mean for each in shares]]
            means = [each.mean for each in shares]
            axes.bar(places, means, width=0.12, yerr=errors, label=f"{arm} {ARMS[arm]}", error_kw={"linewidth": 0.7})
        axes.set_xticks(range(len(choosers)), choosers)
        axes.set(ylabel=f"{name}, share", ylim=(0, 1))
    figure.axes[0].legend(ncols=3, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1))
    figure.suptitle(f"{size:,} workflows", fontsize="small")
    figure.savefig(picture, metadata={"Date": None})
