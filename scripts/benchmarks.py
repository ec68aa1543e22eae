"""Writes docs/benchmarks.md, its tables and its pictures from what `make benchmarks`, or a part of it, measured.

Each benchmark leaves in build/benchmarks `NAME.txt`, as it was printed, `NAME.json`, the numbers, and `NAME.run`, the
commit, the date, the processor and how busy the machine was. The tables are the first, in files next to the pictures,
which are drawn from the numbers; the page leads to both. A section that was not measured again stays as it is, with
its own commit and date.
"""

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
FILES = ROOT / "docs" / "benchmarks"
RESULTS = ROOT / "build" / "benchmarks"
HEAD = """\
# Benchmarks

What `make benchmarks` measured last, on {machine}. Each section names its commit and date, and links its table.
A section changes only when it is measured again. Times depend on the machine and its load: compare ratios within one
run. At the end: [where the time goes](#where-the-time-of-a-search-goes) and [missed goals](#missed-goals). What agents
choose from this catalog and from others is in [FormularyBench](benchmarks/agents.md).
"""
BY_HAND = "<!-- written by hand -->\n"
"""What follows it on the page stays as it is."""
Numbers = Any
Drawing = Callable[[Axes, Numbers], None]


@dataclass(frozen=True, eq=False)
class Section:
    """A benchmark on the page: what it shows in words, and pictures by file name."""

    name: str
    title: str
    words: str
    pictures: Mapping[str, Drawing]


def reliability(axes: Axes, numbers: Numbers) -> None:
    """How often first answers were right, by the confidence they were given with."""
    bins = numbers["calibration"]["first answers"]["bins"]
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    sizes = [12 + 4 * each["count"] for each in bins]
    axes.scatter([each["confidence"] for each in bins], [each["right"] for each in bins], s=sizes)
    axes.set(xlabel="confidence", ylabel="share that was right", xlim=(0, 1), ylim=(-0.02, 1.02))


def rankings(axes: Axes, numbers: Numbers) -> None:
    """Mean reciprocal rank by kind of query."""
    by_kind = numbers["ranking"]["MRR@10"]
    systems = list(by_kind["overall"])
    for position, system in enumerate(systems):
        places = [number + 0.15 * (position - len(systems) / 2) for number in range(len(by_kind))]
        axes.bar(places, [by_kind[kind][system]["mean"] for kind in by_kind], width=0.14, label=system)
    axes.set_xticks(range(len(by_kind)), list(by_kind))
    axes.set(ylabel="MRR@10", ylim=(0, 1))
    axes.legend(ncols=len(systems), fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1))


def growth(axes: Axes, numbers: Numbers) -> None:
    """Median time of the whole search by size of the catalog; dotted, numpy over the same rows in memory."""
    sizes = sorted(numbers["sizes"], key=int)
    for position, each in enumerate(numbers["sizes"][sizes[0]]):
        for way, style in (("whole search", "-"), ("numpy, sorted", ":")):
            medians = [numbers["sizes"][size][position]["times"][way]["p50"] for size in sizes]
            label = each["name"] if way == "whole search" else None
            axes.plot([int(size) for size in sizes], medians, style, color=f"C{position}", marker=".", label=label)
    axes.set(xscale="log", yscale="log", xlabel="workflows", ylabel="p50, ms")
    axes.legend(fontsize="small", ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1))


def stores(axes: Axes, numbers: Numbers) -> None:
    """Median time of a typical question in each store, at the largest size that was measured."""
    largest = max(numbers["sizes"], key=int)
    typical = [each for each in numbers["sizes"][largest]["measured"] if each["question"] == "typical"]
    typical.sort(key=lambda each: -each["p50"])
    colours = ["C1" if each["store"].startswith("Formulary") else "C0" for each in typical]
    axes.barh([each["store"] for each in typical], [each["p50"] for each in typical], color=colours)
    axes.set(xscale="log", xlabel=f"p50 of a typical question, ms, {int(largest):,} workflows")


def throughput(axes: Axes, numbers: Numbers) -> None:
    """Searches a second by the number of clients that search all the time."""
    for query in dict.fromkeys(each["query"] for each in numbers["throughput"]):
        line = [each for each in numbers["throughput"] if each["query"] == query]
        axes.plot([each["clients"] for each in line], [each["a_second"] for each in line], marker="o", label=query)
    axes.set(xscale="log", xlabel="clients", ylabel="searches a second", ylim=(0, None))
    axes.set_xticks([each["clients"] for each in numbers["throughput"]])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.legend(fontsize="small")


SECTIONS = (
    Section(
        name="quality",
        title="What searches find",
        words="Judged queries on the starter catalog, the part that nothing was tuned on "
        "(`benchmarks/judgements/README.md`), asked without constraints, filtered by their labels, under an incident, "
        "and with every right answer excluded. The last table has incidents with 0 to 4 custom labels, of teams that "
        "own 0 to 200 workflows that have nothing to do with the queries. In brackets, 95 % bootstrap intervals.",
        pictures={"rankings": rankings, "reliability": reliability},
    ),
    Section(
        name="scale",
        title="The database, by size of the catalog",
        words="Generated catalogs, one tenant owning half; row-level security on, as the server's role. "
        "`whole search` is everything that the store does, `candidates` all of it but the page, `exact search` a "
        "statement that only filters and compares, `words only` a search without embedding model, "
        "`in numbers` what `catalog_stats` counts. `unfiltered` has no label at all. numpy has the same rows in "
        "memory, without tenants, persistence or a server.",
        pictures={"growth": growth},
    ),
    Section(
        name="peers",
        title="Other stores",
        words="The same rows, filters and vectors, asked in turn in the same run. Ours complete, and without words.",
        pictures={"stores": stores},
    ),
    Section(
        name="mcp",
        title="A whole search over MCP",
        words="Over HTTP against a server in a process of its own; server and PostgreSQL columns are processor time.",
        pictures={"throughput": throughput},
    ),
    Section(
        name="problems",
        title="What searches find of problems that nothing was fitted on",
        words="Problems in groups of neighbours, with queries that share few words with them "
        "(`benchmarks/problems/README.md`), each a workflow without labels of its own, asked without constraints. "
        "Neither weights nor the adapter have seen them. In brackets, 95 % bootstrap intervals.",
        pictures={},
    ),
    Section(
        name="warned",
        title="What an answer says where its author excludes it",
        words="Queries that `whenNotToUse` of some workflow excludes, or nearly excludes "
        "(`benchmarks/warned/README.md`), asked without constraints.",
        pictures={},
    ),
    Section(
        name="itbench",
        title="What searches find for the scenarios of ITBench",
        words="Scenarios of ITBench's SRE library in our words (`benchmarks/itbench/scenarios.yaml`), on the starter "
        "catalog. A workflow is right if its commands hold a verb and kind of the official solution. Below, those "
        "whose first answer is wrong.",
        pictures={},
    ),
    Section(
        name="knowledge",
        title="What searches of documents find",
        words="Judged queries on runbooks (`benchmarks/knowledge/README.md`), on which nothing was tuned. A right file "
        "counts at the place of its first section. Plain cosine ranks the same documents by the same vectors. In "
        "brackets, 95 % bootstrap intervals.",
        pictures={},
    ),
    Section(
        name="analytics",
        title="Searches during heavy SQL",
        words="Four clients run heavy statements over `insight`, each again as soon as it is answered; server, "
        "PostgreSQL and clients share the processors. A statement is cancelled after 2 s, and rejected while others "
        "run.",
        pictures={},
    ),
    Section(name="mcp_peers", title="Other MCP servers", words="Searches of the same documents.", pictures={}),
    Section(
        name="tools",
        title="The tools of the catalog, next to a search",
        words="The catalog of the sections above, asked over REST by a caller who sees all of it. Goals are relative "
        "to a search with labels, which reads all rows as most of these do.",
        pictures={},
    ),
    Section(
        name="console",
        title="Pages of the console",
        words="Over HTTP, with a large catalog and a long trail; the server and PostgreSQL are processes of their own. "
        "Each page in turn, then one each second while a client searches all the time.",
        pictures={},
    ),
    Section(
        name="embedding",
        title="Embedding",
        words="The floor is the time to read the weights once from memory, measured in the same run.",
        pictures={},
    ),
    Section(
        name="install",
        title="From nothing to the first answer",
        words="With empty caches, downloads included. Earlier, with an export by torch, `make run` installed 2.4 GB, "
        "in 81 s on this kind of machine; `pip install` of the wheel installed 6.2 GB and searched by words alone.",
        pictures={},
    ),
    Section(
        name="startup",
        title="Memory and start-up",
        words="`formulary serve` on a database that holds the catalog; `formulary up` on its data directory of an "
        "earlier start, with a file for each workflow. Memory is that of the process itself, without PostgreSQL.",
        pictures={},
    ),
    Section(
        name="soak",
        title="Under load and loss",
        words="Mixed traffic while one thing after another fails. Each answer is compared with an oracle, each event "
        "with the trail.",
        pictures={},
    ),
    Section(name="phases", title="Phases of a search, cost of the trail", words="In one process.", pictures={}),
)


@dataclass(frozen=True)
class Run:
    """What was measured, when (UTC), and how busy the machine was: load averages before, and how much of its time, in
    percent, the host gave to others meanwhile. Without `bfloat16` the model takes three times as long."""

    commit: str
    date: str
    load: str
    stolen: int
    bfloat16: bool


def machine() -> str:
    """The machine in a few words."""
    model = next(
        (line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")), platform.machine()
    )
    return f"{os.cpu_count()} cores of {model}"


def _cpuinfo() -> Iterator[str]:
    file = Path("/proc/cpuinfo")
    yield from file.read_text(encoding="utf-8").splitlines() if file.exists() else ()


def page(runs: Mapping[Section, Run]) -> str:
    """The whole page. Raises `SystemExit` where there is nothing to show, or something that was never committed."""
    if not runs:
        raise SystemExit("nothing was measured: run `make benchmarks`")
    if changed := [section.name for section, run in runs.items() if run.commit.endswith("-dirty")]:
        raise SystemExit(f"measured with changes that are in no commit: {', '.join(changed)}; measure again")
    kept = _sections_of_page()
    sections = [_section(each, runs[each]) if each in runs else kept.get(each.title) for each in SECTIONS]
    head = HEAD.format(machine=machine())
    if missing := [each.title for each, text in zip(SECTIONS, sections, strict=True) if text is None]:
        head += f"\nNot measured for this page: {'; '.join(missing)}.\n"
    return "\n".join([head, *filter(None, sections)]) + _by_hand()


def _sections_of_page() -> dict[str, str]:
    """The sections that the page has now, by title."""
    _, *sections = _written().partition(BY_HAND)[0].split("\n## ")
    return {each.partition("\n")[0]: f"## {each.rstrip()}\n" for each in sections}


def _by_hand() -> str:
    """The end of the page, which nothing here measures."""
    _, mark, text = _written().partition(BY_HAND)
    return f"\n{mark}{text}" if mark else ""


def _written() -> str:
    return PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""


def _section(section: Section, run: Run) -> str:
    pictures = "".join(f"![{name}](benchmarks/{name}.svg)\n\n" for name in section.pictures)
    measured = (
        f"Commit `{run.commit}`, {run.date} UTC; load before: {run.load}; taken by others: {run.stolen} %; "
        f"{'with' if run.bfloat16 else 'without'} bfloat16."
    )
    table = f"[The table](benchmarks/{section.name}.txt)."
    return f"## {section.title}\n\n{pictures}{section.words} {measured} {table}\n"


def _write_table(section: Section) -> None:
    lines = [f"{line.rstrip()}\n" for line in _result(section, "txt").splitlines()]
    (FILES / f"{section.name}.txt").write_text("".join(lines), encoding="utf-8")


def run_of(section: Section) -> Run:
    """Raises `SystemExit` where it did not end."""
    if not (RESULTS / f"{section.name}.run").exists():
        raise SystemExit(f"{section.name} has no numbers: it did not end; measure it again")
    return Run(**json.loads(_result(section, "run")))


def _result(section: Section, kind: str) -> str:
    return (RESULTS / f"{section.name}.{kind}").read_text(encoding="utf-8")


def draw(section: Section) -> None:
    """Write the pictures of a section, the same file for the same numbers."""
    numbers = json.loads(_result(section, "json")) if section.pictures else None
    for name, drawing in section.pictures.items():
        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        drawing(axes, numbers)
        figure.savefig(FILES / f"{name}.svg", metadata={"Date": None})


def main() -> None:
    """Write the page with what there is a result of."""
    mpl.rcParams["svg.hashsalt"] = "formulary"
    FILES.mkdir(exist_ok=True)
    runs = {section: run_of(section) for section in SECTIONS if (RESULTS / f"{section.name}.txt").exists()}
    written = page(runs)
    for section in runs:
        draw(section)
        _write_table(section)
    PAGE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
