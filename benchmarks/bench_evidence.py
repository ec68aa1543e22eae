"""`make bench-quality`: what searches say of evidence from the lab, and how far they can be believed.

The faults were broken on a real node, and what an agent would paste was kept (`benchmarks/evidence`). Real database,
real model, the whole public service. Nothing was fitted on two of the parts: `judge`, and `issues`, which tells what
people paste into public issues.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench_quality import measure
from formulary_catalog.embedding import load_embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from quality_evidence import EVIDENCE, ISSUES, read_evidence, read_issues
from quality_judgements import STARTER
from quality_metrics import expected_calibration_error, reliability_by_width
from quality_summary import OURS, Answered
from quality_variants import Variant

BELIEVED, CERTAIN = 0.5, 0.85
WAYS = ("paste", "alert", "cause")
FORMATS = ("notifications", "tables", "describe", "events", "logs", "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The first answers to one way of asking about one part.

    `first`: of those with a remedy, the ones that are right. `certain`, `certain_right`: answers of 0.85 or more.
    `believed`: of right ones and of those without any remedy, the share with 0.5 or more. `harmful`: queries for which
    a workflow that would do harm has 0.5 or more. `error`: between confidence and truth, expected over bins of equal
    width.
    """

    part: str
    way: str
    queries: int
    with_remedy: int
    first: int
    certain: int
    certain_right: int
    believed_right: float
    believed_nothing: float
    harmful: int
    error: float


def rows(answers: Sequence[Answered], *, harmful: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    """A row for each part and way; `harmful` has the workflows that would do harm, by query."""
    for part, name in (("tune", "fit"), ("held", "judge")):
        for way in WAYS:
            prefix = f"{EVIDENCE}-{way}-"
            of_way = [each for each in answers if each.judgement.part == part and each.judgement.id.startswith(prefix)]
            yield _row(of_way, part=name, way=way, harmful=harmful)
    of_issues = [each for each in answers if each.judgement.id.split("-")[1] in FORMATS]
    for way in FORMATS:
        of_way = [each for each in of_issues if each.judgement.id.startswith(f"{EVIDENCE}-{way}-")]
        yield _row(of_way, part=ISSUES, way=way, harmful=harmful)
    yield _row(of_issues, part=ISSUES, way="all", harmful=harmful)


def _row(answers: Sequence[Answered], *, part: str, way: str, harmful: Mapping[str, Sequence[str]]) -> Row:
    firsts = [each.judged_confidences[0] for each in answers]
    nothing = [each.confidences[0] for each in answers if not each.judgement.has_answer]
    right = [confidence for confidence, is_right in firsts if is_right]
    bins = reliability_by_width([given for given, _ in firsts], [came for _, came in firsts])
    return Row(
        part=part,
        way=way,
        queries=len(answers),
        with_remedy=len(answers) - len(nothing),
        first=len(right),
        certain=sum(confidence >= CERTAIN for confidence, _ in firsts),
        certain_right=sum(confidence >= CERTAIN for confidence in right),
        believed_right=_share(right),
        believed_nothing=_share(nothing),
        harmful=sum(_believes_one_of(each, harmful[each.judgement.id]) for each in answers),
        error=expected_calibration_error(bins),
    )


def _believes_one_of(answer: Answered, names: Sequence[str]) -> bool:
    hits = zip(answer.rankings[OURS], answer.confidences, strict=True)
    return any(name in names and confidence >= BELIEVED for name, confidence in hits)


def _share(confidences: Sequence[float]) -> float:
    return sum(each >= BELIEVED for each in confidences) / max(len(confidences), 1)


def main() -> None:
    """Measure once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write all numbers there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(directory) / "evidence") as postgres:
            asked = [*read_evidence("fit"), *read_evidence("judge"), *read_issues()]
            embedder = load_embedder()
            answers = asyncio.run(
                measure(asked, manifests=STARTER.workflows, embedder=embedder, postgres=postgres, under=[Variant.PLAIN])
            )
    found = [*rows(answers, harmful={each.id: each.harmful for each in asked})]
    table = Table(
        "part", "asked by", "right first", "0.85 or more: right", "right at 0.5", "nothing at 0.5", "harmful", "error"
    )
    for row in found:
        certain = f"{row.certain_right} of {row.certain}"
        first = f"{row.first} of {row.with_remedy}"
        shares = (f"{each:.0%}" for each in (row.believed_right, row.believed_nothing))
        table.add_row(row.part, row.way, first, certain, *shares, f"{row.harmful} of {row.queries}", f"{row.error:.3f}")
    Console(width=120).print(table)
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in found], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
