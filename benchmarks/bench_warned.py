"""`make bench-quality`: what an answer says where `whenNotToUse` excludes what sounds right (`warned/README.md`).

Real database, real model, the whole public service, without constraints.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.table import Table

from bench_quality import measure
from formulary_catalog.domain.text import words
from formulary_catalog.embedding import load_embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from quality_judgements import RUNBOOKS, STARTER, JudgedCatalog, Judgement
from quality_summary import HIGH, OURS, Answered
from quality_variants import Variant

WARNED = Path(__file__).parent / "warned"
CATALOGS: Mapping[str, JudgedCatalog] = {"starter": STARTER, "runbooks": RUNBOOKS}
_QUOTED = 0.6
"""A clause is quoted if so much of it is, from its beginning: a note may be cut within its last clause."""


class Situation(BaseModel):
    """A query near a clause of `whenNotToUse`; without `warned` the clause does not hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    query: str
    best: tuple[str, ...] = ()
    acceptable: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    clause: str

    @property
    def judgement(self) -> Judgement:
        """The query as one that is judged."""
        return Judgement(
            id=self.id,
            kind="symptom",
            part="held",
            query=self.query,
            best=self.best,
            acceptable=self.acceptable,
            labels={},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Of some first answers: how many, and the shares that have 0.5 or more, a caution, and the clause in a note."""

    answers: int
    high: float
    cautioned: float
    quoted: float


def read_situations(catalog: str) -> list[Situation]:
    """The situations of a catalog."""
    read = yaml.safe_load((WARNED / f"{catalog}.yaml").read_text(encoding="utf-8"))
    return [Situation.model_validate(each) for each in read]


def quotes(notes: Sequence[str], *, clause: str) -> bool:
    """Whether a note has the clause, or most of it from its beginning on."""
    said = words(clause.casefold())
    beginning = " ".join(said[: max(1, round(_QUOTED * len(said)))])
    return any(f" {beginning} " in f" {' '.join(words(note.casefold()))} " for note in notes)


def summarise(asked: Sequence[tuple[Situation, Answered]]) -> dict[str, Shares]:
    """By what the first answer is: excluded by its author, right where the query only comes near a clause, and both
    where it has 0.5 or more."""
    first = [(each, answer) for each, answer in asked if answer.rankings[OURS]]
    excluded = [(each, answer) for each, answer in first if answer.rankings[OURS][0] in each.warned]
    near = [(each, answer) for each, answer in first if not each.warned and answer.grades(OURS)[0] > 0]
    summary = {}
    for kind, group in (("excluded by its author", excluded), ("right, near a clause", near)):
        summary[kind] = _shares(group)
        summary[f"{kind}, {HIGH} or more"] = _shares(_high(group))
    return summary


def _high(group: Sequence[tuple[Situation, Answered]]) -> list[tuple[Situation, Answered]]:
    return [(each, answer) for each, answer in group if answer.confidences[0] >= HIGH]


def _shares(group: Sequence[tuple[Situation, Answered]]) -> Shares:
    count = len(group) or 1
    return Shares(
        answers=len(group),
        high=len(_high(group)) / count,
        cautioned=sum(answer.caution != "" for _, answer in group) / count,
        quoted=sum(quotes(answer.notes, clause=each.clause) for each, answer in group) / count,
    )


def main() -> None:
    """Measure once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write all numbers there")
    given = parser.parse_args()
    embedder = load_embedder()
    summaries = {}
    with tempfile.TemporaryDirectory(prefix="formulary-bench-") as directory:
        with EmbeddedPostgres(data_dir=Path(directory) / "warned") as postgres:
            for name, catalog in CATALOGS.items():
                situations = read_situations(name)
                answers = asyncio.run(
                    measure(
                        [each.judgement for each in situations],
                        manifests=catalog.workflows,
                        embedder=embedder,
                        postgres=postgres,
                        under=[Variant.PLAIN],
                    )
                )
                summaries[name] = summarise([*zip(situations, answers, strict=True)])
                _print(summaries[name], title=f"first answers, {name}, {len(situations)} queries")
    if given.json:
        numbers = {name: {kind: asdict(one) for kind, one in each.items()} for name, each in summaries.items()}
        given.json.write_text(json.dumps(numbers, indent=1), encoding="utf-8")


def _print(summary: Mapping[str, Shares], *, title: str) -> None:
    table = Table(title, "answers", f"{HIGH} or more", "with a caution", "a note quotes the clause")
    for kind, each in summary.items():
        table.add_row(kind, str(each.answers), *(f"{share:.0%}" for share in (each.high, each.cautioned, each.quoted)))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
