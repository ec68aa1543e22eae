"""`make bench-quality`: whether searches find a remedy for the scenarios of ITBench, described in our words.

A workflow is right if its commands hold a pair of verb and kind of the official solution. Real database, real model,
the whole public service. `itbench/scenarios.yaml` says where the scenarios are from.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from bench_quality import measure
from command_acts import acts
from formulary_catalog.embedding import load_embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from quality_judgements import STARTER, Judgement, read_entries
from quality_summary import OURS, Answered
from quality_variants import Variant

SCENARIOS = Path(__file__).parent / "itbench" / "scenarios.yaml"
BELIEVED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Of the scenarios with a remedy: how many any workflow could heal, and those it is first or in the first three of.

    `believed_nothing`: of those without a remedy, the ones whose first answer has a confidence of 0.5 or more.
    """

    with_remedy: int
    coverable: int
    first: int
    in_three: int
    nothing: int
    believed_nothing: int
    missed: Sequence[str]


def read_scenarios(manifests: Path = STARTER.workflows) -> list[Judgement]:
    """The scenarios as judged queries for the workflows of a directory."""
    does = {entry.name: acts(entry.workflow) for entry in read_entries(manifests)}
    return [
        Judgement(
            id=f"itbench-{each['id']}",
            kind="root-cause" if each["remedies"] else "nothing",
            part="held",
            query=each["query"],
            best=tuple(name for name, done in does.items() if done & {tuple(act) for act in each["remedies"]}),
            acceptable=(),
            labels={},
        )
        for each in yaml.safe_load(SCENARIOS.read_text(encoding="utf-8"))
    ]


def result(answers: Sequence[Answered]) -> Result:
    """Counts over all scenarios."""
    asked = [each for each in answers if each.judgement.kind != "nothing"]
    nothing = [each for each in answers if each.judgement.kind == "nothing"]

    def found(answer: Answered, places: int) -> bool:
        return bool({*answer.rankings[OURS][:places]} & {*answer.judgement.best})

    return Result(
        with_remedy=len(asked),
        coverable=sum(each.judgement.has_answer for each in asked),
        first=sum(found(each, 1) for each in asked),
        in_three=sum(found(each, 3) for each in asked),
        nothing=len(nothing),
        believed_nothing=sum(max(each.confidences[:1], default=0.0) >= BELIEVED for each in nothing),
        missed=[f"{each.judgement.id}: {', '.join(each.rankings[OURS][:3])}" for each in asked if not found(each, 1)],
    )


def main() -> None:
    """Measure once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write all numbers there")
    parser.add_argument("--manifests", type=Path, default=STARTER.workflows, help="the workflows to judge")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "itbench") as postgres:
            asked = read_scenarios(given.manifests)
            answers = asyncio.run(
                measure(
                    asked, manifests=given.manifests, embedder=load_embedder(), postgres=postgres, under=[Variant.PLAIN]
                )
            )
    found = result(answers)
    table = Table("with a remedy", "coverable", "first", "in the first three", "without: 0.5 or more")
    remedies = (found.with_remedy, found.coverable, found.first, found.in_three)
    table.add_row(*map(str, remedies), f"{found.believed_nothing} of {found.nothing}")
    console = Console(width=120)
    console.print(table)
    console.print("\n".join(found.missed))
    if given.json:
        given.json.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
