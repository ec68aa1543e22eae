"""One fault, one trial: break it, look at it, ask Formulary, do what it offers first, and look again."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.evidence import collect, described, pasted
from lab.fault import Fault
from lab.node.node import Node
from lab.product import Hit, Product, Run
from lab.shell import Shell

THRESHOLD = 0.5
"""A first answer of less confidence counts as a weak match: nobody should act on it."""
_SHOWN_SECONDS, _HEALED_SECONDS, _STEADY_SECONDS, _RUN_SECONDS = 120.0, 60.0, 20.0, 120.0
_SETTLED_SECONDS = 60.0
_BYSTANDER = Path(__file__).with_name("bystander.yaml")
_READY_PODS = (
    "k get pods --output=json | jq --raw-output '.items[] | "
    'select(any(.status.conditions[]?; .type == "Ready" and .status == "True")) | .metadata.uid\''
)
_PODS = "k get pods --output=jsonpath='{.items[*].metadata.uid}'"
_STATE_OF_BYSTANDER = (
    "k get deployment bystander --output=jsonpath='{.metadata.uid} {.metadata.generation} {.spec.replicas}';"
    "k get pods --selector=app=bystander --output=jsonpath='{.items[*].metadata.uid}'"
)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of a trial."""

    fault: Fault
    evidence: dict[str, str] = field(default_factory=dict)
    pasted: Hit | None = None
    cause: Hit | None = None
    described: Hit | None = None
    acted_on: str = ""
    run: Run | None = None
    healed: bool = False
    harmed: bool = False
    seconds: float = 0.0
    problem: str = ""

    def is_right(self, hit: Hit | None) -> bool:
        """Whether the first answer is a right one, or nothing was offered where nothing is right."""
        if hit is None or hit.confidence < THRESHOLD:
            return not self.fault.right
        return hit.workflow in self.fault.right


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the cluster says once something was done about a fault; `state` says how doing it ended.

    `touched`: the bystander is another one. `ended`: a pod of the namespace that was ready before is gone.
    """

    state: str
    healed: bool = False
    touched: bool = False
    ended: bool = False


def try_fault(fault: Fault, *, node: Node, product: Product) -> Outcome:
    """The whole trial; what goes wrong with the lab itself is its `problem`. It cleans up in any case."""
    outcome, shell, began = Outcome(fault=fault), Shell(node, fault), time.monotonic()
    try:
        _break(fault, shell=shell, node=node)
        outcome.evidence = collect(fault, shell)
        incident = product.report(fault)
        outcome.pasted = _first(product.search(pasted(outcome.evidence), incident=incident))
        outcome.cause = _first(product.search(fault.root_cause, incident=incident))
        outcome.described = _first(product.search(described(fault), incident=incident))
        if (chosen := outcome.described) is not None and chosen.confidence >= THRESHOLD:
            before = shell.output(_STATE_OF_BYSTANDER)
            outcome.acted_on = chosen.workflow
            outcome.run = _act(chosen.workflow, incident=incident, fault=fault, product=product)
            outcome.healed = _is_healed(fault, shell=shell)
            outcome.harmed = shell.output(_STATE_OF_BYSTANDER) != before
    except Exception as error:  # a trial that fails must not end the others
        outcome.problem = f"{type(error).__name__}: {error}"
    finally:
        _clean_up(fault, shell=shell, node=node)
    outcome.seconds = time.monotonic() - began
    return outcome


def check_fault(fault: Fault, *, node: Node) -> dict[str, str]:
    """Prove that a fault is one: it shows, it is not healed by itself, and its remedy heals it. Returns the evidence.

    Raises RuntimeError with what does not hold.
    """
    shell = Shell(node, fault)
    try:
        _break(fault, shell=shell, node=node)
        evidence = collect(fault, shell)
        if fault.right and shell.holds(fault.healed):
            raise RuntimeError("it counts as healed while it shows")
        if fault.remedy:
            shell.run(fault.remedy)
            if not _is_healed(fault, shell=shell):
                raise RuntimeError("its own remedy does not heal it")
    finally:
        _clean_up(fault, shell=shell, node=node)
    return evidence


def judge_remedy(fault: Fault, act: Callable[[Shell], str], *, node: Node) -> Judged:
    """Break it, do what is to be judged, and look at the cluster. The namespace is deleted at the end.

    Raises RuntimeError if the lab fails.
    """
    shell = Shell(node, fault)
    try:
        _break(fault, shell=shell, node=node)
        before, ready = shell.output(_STATE_OF_BYSTANDER), {*shell.output(_READY_PODS).split()}
        state = act(shell)
        healed = _is_healed(fault, shell=shell)
        return Judged(
            state=state,
            healed=healed,
            touched=shell.output(_STATE_OF_BYSTANDER) != before,
            ended=not ready <= {*shell.output(_PODS).split()},
        )
    finally:
        _clean_up(fault, shell=shell, node=node)
        node.kubectl("delete", "namespace", fault.namespace)  # a remedy may have made anything in it


def _break(fault: Fault, *, shell: Shell, node: Node) -> None:
    node.create_namespace(fault.namespace)
    manifests = _BYSTANDER.read_text() + fault.manifests
    node.kubectl("apply", f"--namespace={fault.namespace}", "--filename=-", input=manifests)
    if not shell.becomes("available deployment/bystander", seconds=_SETTLED_SECONDS):
        raise RuntimeError("the bystander does not run")
    if fault.inject:
        shell.run(fault.inject)
    if not shell.becomes(fault.shown, seconds=_SHOWN_SECONDS):
        seen = shell.output(f"set -x\n{fault.shown}")[-1500:]
        raise RuntimeError(f"the fault does not show: {seen}")


def _act(workflow: str, *, incident: str, fault: Fault, product: Product) -> Run:
    wanted = product.parameters(workflow, incident=incident)
    values = fault.parameters(workflow, wanted)
    missing = [each["name"] for each in wanted if each.get("required") and each["name"] not in values]
    if missing:
        return Run(state="unfilled", message=f"nothing in the evidence says {', '.join(missing)}")
    return product.run(workflow, incident=incident, namespace=fault.namespace, values=values, seconds=_RUN_SECONDS)


def _is_healed(fault: Fault, *, shell: Shell) -> bool:
    """Healed for a while: a pod that crashes every minute is well in between."""
    return shell.becomes(fault.healed, seconds=_HEALED_SECONDS) and shell.stays(fault.healed, seconds=_STEADY_SECONDS)


def _clean_up(fault: Fault, *, shell: Shell, node: Node) -> None:
    if fault.clean_up:
        shell.output(fault.clean_up)
    kinds = (
        "deployments,statefulsets,daemonsets,jobs,cronjobs,pods,services,persistentvolumeclaims,"
        "horizontalpodautoscalers,poddisruptionbudgets,resourcequotas,limitranges"
    )
    shell.output(f"k delete {kinds} --all --wait=false --grace-period=0 --force")
    shell.output("k delete aianalyses.kubernaut.ai --all")


def _first(hits: Sequence[Hit]) -> Hit | None:
    return hits[0] if hits else None
