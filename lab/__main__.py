"""`make lab`: breaks a real node in many ways, asks Formulary each time, does what it offers, and judges the cluster.

python -m lab [try] [FAULT...]      the trials, and their table
python -m lab check [FAULT...]      whether each fault shows and its own remedy heals it, without Formulary
python -m lab evidence [FAULT...]   the same, and keeps what an agent would have pasted in benchmarks/evidence
"""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import yaml

from lab.fault import Fault, read_faults
from lab.node.node import Node, start_node
from lab.node.programs import NoNode
from lab.product import install_product
from lab.report import summary, table, totals
from lab.trial import Outcome, check_fault, try_fault

EVIDENCE = Path(__file__).parents[1] / "benchmarks" / "evidence"
_AT_A_TIME = 4
T = TypeVar("T")


def main() -> int:
    """Run a command of the lab. Returns 0 unless something did not hold."""
    parser = argparse.ArgumentParser(prog="lab", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("try", "check", "evidence"), default="try")
    parser.add_argument("fault", nargs="*")
    parser.add_argument("--output", type=Path, help="where the table is written too")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    faults = read_faults(given.fault)
    try:
        with start_node(lambda line: print(line, flush=True)) as node:
            if given.command == "try":
                return _try_all(faults, node=node, output=given.output)
            return _check_all(faults, node=node, keep=given.command == "evidence")
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (NoNode, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1


def _try_all(faults: Sequence[Fault], *, node: Node, output: Path | None) -> int:
    outcomes: list[Outcome] = []

    def attempt(fault: Fault) -> None:
        outcome = try_fault(fault, node=node, product=product)
        outcomes.append(outcome)
        print(f"{outcome.seconds:5.0f} s  {summary(outcome)}", flush=True)
        if output is not None:  # after each: half a table is better than none
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(f"{table(outcomes)}\n{totals(outcomes)}")

    with install_product(node, namespaces=sorted({fault.namespace for fault in faults})) as product:
        _in_turn(faults, attempt)
    print(f"{table(outcomes)}\n{totals(outcomes)}")
    return 1 if any(outcome.problem for outcome in outcomes) else 0


def _check_all(faults: Sequence[Fault], *, node: Node, keep: bool) -> int:
    def check(fault: Fault) -> bool:
        try:
            evidence = check_fault(fault, node=node)
        except RuntimeError as error:
            print(f"FAILED {fault.name}: {error}", flush=True)
            return False
        print(f"ok {fault.name}", flush=True)
        if keep:
            _keep(fault, evidence)
        return True

    return 0 if all(_in_turn(faults, check)) else 1


def _in_turn(faults: Sequence[Fault], act: Callable[[Fault], T]) -> list[T]:
    """Those of one namespace beside each other, then those of the whole cluster one by one."""
    alone = [fault for fault in faults if fault.scope == "cluster"]
    together = [fault for fault in faults if fault.scope == "namespace"]
    pool = ThreadPoolExecutor(max_workers=_AT_A_TIME)
    try:
        return [*pool.map(act, together), *(pool.submit(act, fault).result() for fault in alone)]
    finally:  # who is stopped ends the node, and with it what these still do there
        pool.shutdown(wait=False, cancel_futures=True)


def _keep(fault: Fault, evidence: dict[str, str]) -> None:
    folder = EVIDENCE / fault.part
    folder.mkdir(parents=True, exist_ok=True)
    kept = {
        "fault": fault.name,
        "kind": fault.kind,
        "what": fault.what,
        "root_cause": fault.root_cause,
        "right": list(fault.right),
        "harmful": list(fault.harmful),
        "signal": fault.signal,
        "severity": fault.severity,
        "texts": evidence,
    }
    text = yaml.dump(kept, Dumper=_Readable, sort_keys=False, width=120, allow_unicode=True)
    (folder / f"{fault.name}.yaml").write_text(text, encoding="utf-8")


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as they are, for people who judge them."""


def _as_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    lines = "\n".join(line.rstrip() for line in text.expandtabs().split("\n"))
    return dumper.represent_scalar("tag:yaml.org,2002:str", lines, style="|" if "\n" in lines else None)


_Readable.add_representer(str, _as_block)


if __name__ == "__main__":
    sys.exit(main())
