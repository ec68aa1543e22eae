"""Recorded events in words for people: what the governance tools were asked and said."""

from collections.abc import Callable, Iterator, Mapping

from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.wording import Description, Known, Line, Tone, lines

_DECISIONS = {
    "ALLOW": ("allowed", Tone.GOOD),
    "DEGRADE": ("allowed as a dry run only", Tone.WAITING),
    "AWAIT": ("waits for an approval or evidence", Tone.WAITING),
    "BLOCK": ("blocked", Tone.BAD),
    "HALT": ("halted", Tone.BAD),
    "UNKNOWN": ("undecided", Tone.WAITING),
}
_GRAVE = ("critical", "high")


def spell_decision(word: str) -> tuple[str, Tone]:
    """A decision in words, and how it is meant."""
    return _DECISIONS.get(word, (word or "undecided", Tone.WAITING))


def risk_lines(report: Recorded) -> Iterator[Line]:
    """The risks of a gate report."""
    for risk in report.each("risks"):
        severity = risk.text("severity")
        text = ": ".join(part for part in (risk.text("category"), risk.text("message")) if part)
        yield Line(label="risk", text=f"{severity}, {text}", tone=Tone.BAD if severity in _GRAVE else Tone.WAITING)


def _gate(payload: Recorded, known: Known) -> Description:
    report = payload.inner("result").inner("gate_report")
    said, tone = spell_decision(report.text("decision"))
    task = Line(label="task", text=payload.inner("arguments").text("task"))
    return Description(title=f"gate: {said}", tone=tone, lines=lines(task, risk_lines(report)))


def _enforce(payload: Recorded, known: Known) -> Description:
    result = payload.inner("result").inner("enforce_result")
    said, tone = spell_decision(result.text("decision_summary"))
    counts = [(result.text(f"{name}_count"), name) for name in ("allowed", "degraded", "blocked")]
    return Description(
        title=f"contract {result.text('contract_id')}: {said}",
        tone=tone,
        lines=lines(
            Line(label="actions", text=", ".join(f"{count} {name}" for count, name in counts if count)),
            Line(label="rules", text=", ".join(result.texts("blocked_rule_ids")), tone=Tone.BAD),
        ),
    )


def _verdict(payload: Recorded, known: Known) -> Description:
    verdict = payload.inner("result").inner("verdict")
    said, tone = spell_decision(verdict.text("final_decision"))
    return Description(
        title=f"verdict: {said}",
        tone=tone,
        lines=lines(
            Line(label="summary", text=verdict.text("summary")),
            (Line(label="why", text=why) for why in verdict.texts("why")),
            (Line(label="next", text=step) for step in verdict.texts("next_steps")),
        ),
    )


def _replay(payload: Recorded, known: Known) -> Description:
    status = payload.inner("result").inner("replay").text("status") or "unknown"
    return Description(title=f"verified the trace so far: {status}", tone=Tone.BAD if status == "FAIL" else Tone.PLAIN)


GOVERNANCE_DESCRIPTIONS: Mapping[str, Callable[[Recorded, Known], Description]] = {
    "governance.gate": _gate,
    "governance.enforce": _enforce,
    "governance.verdict": _verdict,
    "governance.replay": _replay,
}
