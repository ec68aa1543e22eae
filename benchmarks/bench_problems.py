"""`make bench-quality`: what searches find of problems that nothing was fitted on (`problems/README.md`).

Real database, real model, the whole public service, next to the simple rankings of `quality_baselines`.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from bench_quality import measure
from dataset import Problem, read_problems
from formulary_catalog.embedding import load_embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from quality_judgements import BEST, Judgement
from quality_metrics import CUTOFF, Estimate, estimate, reciprocal_rank
from quality_summary import OVERALL, Answered
from quality_variants import Variant
from support import manifest

PROBLEMS = Path(__file__).parent / "problems"
_PLAIN_WORDS = {"paraphrase": "symptom"}
"""Kinds of queries that judged sets do not have, and the one that they are for them."""
Summary = dict[str, dict[str, Estimate]]
"""MRR@10 by kind of query and system."""


def workflows(problems: Iterable[Problem]) -> list[dict[str, object]]:
    """A manifest for each problem. All have the same labels, which say nothing."""
    return [
        manifest.workflow(
            each.name,
            description={"what": each.what, "whenToUse": each.when_to_use},
            labels={"signalType": ["*"], "severity": ["*"], "environment": ["*"], "component": ["*"], "priority": "*"},
        )
        for each in problems
    ]


def judgements(problems: Iterable[Problem]) -> list[Judgement]:
    """Each query of each problem, with the problem as its best answer; the id begins with its kind."""
    return [
        Judgement(
            id=f"{kind}:{each.name}:{number}",
            kind=_PLAIN_WORDS.get(kind, kind),
            part="held",
            query=query,
            best=(each.name,),
            acceptable=(),
            labels={},
        )
        for each in problems
        for kind, queries in each.queries.items()
        for number, query in enumerate(queries)
    ]


def summarise(answers: Sequence[Answered]) -> Summary:
    """By kind, the most frequent first, and overall."""
    kinds: dict[str, list[Answered]] = {}
    for each in answers:
        kinds.setdefault(each.judgement.id.partition(":")[0], []).append(each)
    ordered = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    return {
        f"{kind}, {len(each)}": {
            system: estimate([reciprocal_rank(one.grades(system), least=BEST) for one in each])
            for system in each[0].rankings
        }
        for kind, each in [*ordered, (OVERALL, list(answers))]
    }


def main() -> None:
    """Measure once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write all numbers there")
    given = parser.parse_args()
    problems = read_problems(PROBLEMS)
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        catalog = Path(directory) / "workflows"
        catalog.mkdir()
        (catalog / "problems.yaml").write_text(yaml.safe_dump_all(workflows(problems)), encoding="utf-8")
        with EmbeddedPostgres(data_dir=Path(directory) / "problems") as postgres:
            answers = asyncio.run(
                measure(
                    judgements(problems),
                    manifests=catalog,
                    embedder=load_embedder(),
                    postgres=postgres,
                    under=[Variant.PLAIN],
                )
            )
    summary = summarise(answers)
    _print(summary, title=f"MRR@{CUTOFF}, {len(problems)} problems")
    if given.json:
        numbers = {kind: {system: asdict(one) for system, one in row.items()} for kind, row in summary.items()}
        given.json.write_text(json.dumps(numbers, indent=1), encoding="utf-8")


def _print(summary: Summary, *, title: str) -> None:
    table = Table(title, *next(iter(summary.values())))
    for kind, row in summary.items():
        table.add_row(kind, *(f"{one.mean:.3f} ({one.low:.3f} {one.high:.3f})" for one in row.values()))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
