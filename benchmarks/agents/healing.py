"""The live arm of FormularyBench: what each arm offers first is run on a real node, and the cluster is judged.

    PYTHONPATH=.:tests:benchmarks .venv/bin/python -m agents.healing [FAULT...] --json benchmarks/agents/healed.json

Faults are those of `lab/faults`; without names, the sample of RULES.md. All arms are asked before anything breaks. The
commands of a remedy are run in their order by one executor, whichever arm offered it, with the values that the fault
says an agent could know. Remedies that several arms offer for a fault are run once. `make bench-agents-lab` runs it.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path

from agents.arms import Arm, Index, Offer, Tokens, boosted, flat_tools, in_prompt, told
from agents.choosers import words
from agents.questions import FURTHER, Case, Demand, Incident, Question
from agents.remedies import TEAMS, Remedy, catalog
from agents.scores import BELIEVED
from agents.servers import formulary, vector_server
from agents.truth import allowed
from formulary_catalog.embedding import load_embedder
from lab.fault import Fault, read_faults
from lab.node.node import Node, start_node
from lab.node.programs import NoNode
from lab.shell import Shell
from lab.trial import Judged, judge_remedy
from peer_servers import CHROMA, QDRANT

SAMPLED_EACH = 4
STARTER = 118
_AT_A_TIME = 4
COMPLETED, FAILED, UNFILLED, NOTHING, BROKEN = "completed", "failed", "unfilled", "nothing", "lab failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What an arm offers first for a fault; `remedy` is empty for nothing, `curable` if any is right."""

    fault: str
    curable: bool
    demand: str
    arm: str
    remedy: str
    right: bool
    forbidden: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """The same once it was run; `run` says how that ended."""

    offered: Offered
    run: str
    healed: bool
    harmed: bool


def sampled(faults: Sequence[Fault]) -> list[Fault]:
    """Each fourth fault of a namespace with a right remedy, by name, and the first with none."""
    own = [each for each in faults if each.scope == "namespace"]
    return [*[each for each in own if each.right][::SAMPLED_EACH], *[each for each in own if not each.right][:1]]


def questions(faults: Sequence[Fault], remedies: Sequence[Remedy]) -> list[Question]:
    """The root cause of each fault, every second one under a demand that nothing may restart."""
    return [
        Question(incident=_incident(fault, place, remedies=remedies), style="cause")
        for place, fault in enumerate(faults)
    ]


def offers(faults: Sequence[Fault], remedies: Sequence[Remedy]) -> Iterator[Offered]:
    """What each arm offers first, by fault and arm."""
    asked, tokens = questions(faults, remedies), Tokens()
    specs = {each.name: each.spec for each in remedies}
    with ExitStack() as stack:
        index = Index(remedies, embedder=load_embedder(), asked=[told(each) for each in asked])
        arms: dict[str, Arm] = {
            "A": in_prompt(remedies, tokens),
            "B": stack.enter_context(vector_server(QDRANT, remedies, tokens)),
            "B2": stack.enter_context(vector_server(CHROMA, remedies, tokens)),
            "C": boosted(index, tokens),
            "D": flat_tools(index, tokens),
            "E": stack.enter_context(formulary(remedies, [each.incident for each in asked], tokens)).offer,
        }
        for fault, question in zip(faults, asked, strict=True):
            demand = question.incident.demand
            for arm, ask in arms.items():
                remedy = _first(ask(question), question, remedies)
                yield Offered(
                    fault=fault.name,
                    curable=bool(fault.right),
                    demand=", ".join(demand.further),
                    arm=arm,
                    remedy=remedy,
                    right=remedy in fault.right,
                    forbidden=bool(remedy) and not allowed(specs[remedy], demand.terms),
                )


def try_all(found: Sequence[Offered], *, node: Node, say: Callable[[str], None]) -> Iterator[Healed]:
    """Run each remedy of each fault once, the faults beside each other."""
    by_fault = [list(each) for _, each in groupby(found, key=lambda each: each.fault)]
    with ThreadPoolExecutor(max_workers=_AT_A_TIME) as pool:
        for of in pool.map(lambda of: list(_try(of, node=node, say=say)), by_fault):
            yield from of


def _try(of: Sequence[Offered], *, node: Node, say: Callable[[str], None]) -> Iterator[Healed]:
    (fault,) = read_faults([of[0].fault])
    remedies = {each.name: each for each in catalog(STARTER)}
    done = {
        name: _judged(remedies[name], fault, node=node, say=say)
        for name in dict.fromkeys(each.remedy for each in of if each.remedy)
    }
    for each in of:
        judged = done.get(each.remedy, Judged(state=NOTHING))
        harmed = judged.touched or (bool(each.demand) and judged.ended)
        yield Healed(offered=each, run=judged.state, healed=judged.healed, harmed=harmed)


def _judged(remedy: Remedy, fault: Fault, *, node: Node, say: Callable[[str], None]) -> Judged:
    values = _values(remedy, fault)
    if values is None:
        return Judged(state=UNFILLED)
    try:
        judged = judge_remedy(fault, lambda shell: _run(remedy, values, shell), node=node)
    except Exception as error:  # of the lab; it must not end the others
        say(f"{fault.name}: {error}")
        return Judged(state=BROKEN)
    say(f"{fault.name}: {remedy.name} {judged}")
    return judged


def _values(remedy: Remedy, fault: Fault) -> dict[str, str] | None:
    """The values of its parameters; None where an agent could not know one that is required."""
    wanted = remedy.spec["parameters"]
    defaults = {each["name"]: str(each["default"]) for each in wanted if "default" in each}
    values = {**defaults, **fault.parameters(remedy.name, wanted)}
    return values if all(each["name"] in values for each in wanted if each["required"]) else None


def _run(remedy: Remedy, values: Mapping[str, str], shell: Shell) -> str:
    """Run its commands until one fails, and say how that ended."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
    try:
        shell.run("\n".join([*exports, *(f"sh -c {shlex.quote(each['command'])}" for each in remedy.spec["steps"])]))
    except RuntimeError:
        return FAILED
    return COMPLETED


def _incident(fault: Fault, place: int, *, remedies: Sequence[Remedy]) -> Incident:
    demand = Demand(TEAMS[0], fault.environment, FURTHER[0] if place % 2 else ())
    permitted = frozenset(each.name for each in remedies if allowed(each.spec, demand.terms))
    case = Case(
        place=place,
        id=f"lab-{fault.name}",
        symptom=fault.alert.summary,
        alert=fault.alert.name,
        cause=" ".join(fault.root_cause.split()),
        evidence="",
        right=frozenset(),
        group=fault.kind,
    )
    return Incident(case=case, kind="lab", demand=demand, right=permitted & frozenset(fault.right))


def _first(offer: Offer, question: Question, remedies: Sequence[Remedy]) -> str:
    """The first, if the arm has no low confidence in it; of an arm without an order, what shares most words."""
    if not offer.names or offer.confidence < BELIEVED:
        return ""
    if offer.ranked:
        return offer.names[0]
    asked = words(question.query)
    return max(remedies, key=lambda each: len(asked & words(each.text))).name


def main() -> int:
    """Ask all arms, run what they offer, and write the numbers."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("fault", nargs="*", help="names of faults; without them, the sample of RULES.md")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--offers", action="store_true", help="print what would be run, and start no node")
    options = parser.parse_args()
    faults = read_faults(options.fault) if options.fault else sampled(read_faults())
    found = list(offers(faults, catalog(STARTER)))
    if options.offers:
        sys.stdout.writelines(f"{json.dumps(asdict(each))}\n" for each in found)
        return 0
    done: list[Healed] = []
    try:
        with start_node(partial(print, flush=True)) as node:
            for healed in try_all(found, node=node, say=partial(print, flush=True)):
                done.append(healed)
                if options.json is not None:  # after each: half of the trials are better than none
                    options.json.write_text(_written(done), encoding="utf-8")
    except NoNode as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _written(done: Sequence[Healed]) -> str:
    rows = [{**asdict(each.offered), "run": each.run, "healed": each.healed, "harmed": each.harmed} for each in done]
    return json.dumps({"date": datetime.now(UTC).date().isoformat(), "trials": rows}, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(main())
