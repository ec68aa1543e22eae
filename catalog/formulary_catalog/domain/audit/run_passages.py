"""Recorded events in words for people: what the governance tools said, and a run, from its request to its outcome."""

from collections.abc import Callable, Iterator, Mapping

from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.wording import Description, Known, Line, Tone, lines, spell_duration

_DECISIONS = {
    "ALLOW": ("allowed", Tone.GOOD),
    "DEGRADE": ("allowed as a dry run only", Tone.WAITING),
    "AWAIT": ("waits for an approval or evidence", Tone.WAITING),
    "BLOCK": ("blocked", Tone.BAD),
    "HALT": ("halted", Tone.BAD),
    "UNKNOWN": ("undecided", Tone.WAITING),
}
_GRAVE = ("critical", "high")
_PHASES = {
    "Succeeded": ("succeeded", Tone.GOOD),
    "Failed": ("failed", Tone.BAD),
    "TimedOut": ("timed out", Tone.BAD),
    "Cancelled": ("was cancelled", Tone.BAD),
    "Halted": ("was halted", Tone.BAD),
}

_OUTCOMES = {
    "Helped": ("helped", Tone.GOOD),
    "NotHelped": ("did not help", Tone.BAD),
    "Relapsed": ("helped for a while only", Tone.BAD),
}


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


def _requested(payload: Recorded, known: Known) -> Description:
    seconds = payload.number("timeout_seconds")
    dry = " as a dry run" if payload.flag("dry_run") else ""
    return Description(
        title=f"asked to run {known.workflow(payload)}{dry}",
        lines=lines(
            Line(label="run", text=_place(payload)),
            Line(label="target", text=_object(payload.inner("target"))),
            (Line(label="input", text=f"{name}: {value}") for name, value in payload.inner("input").pairs()),
            Line(label="at most", text=spell_duration(seconds) if seconds else ""),
        ),
    )


def _decided(payload: Recorded, known: Known) -> Description:
    said, tone = spell_decision(payload.text("outcome"))
    if payload.text("outcome") == "AWAIT" and payload.text("phase") != "AwaitingApproval":
        said, tone = "dry run allowed; a real run needs an approval", Tone.PLAIN
    why = payload.texts("why")
    return Description(
        title=f"run of {known.workflow(payload)}: {said}",
        tone=tone,
        lines=lines(
            (Line(label="why", text=each) for each in why),
            _others(payload.each("rules"), why=" ".join(why)),
            risk_lines(payload.inner("gate")),
            (Line(label="missing", text=missing, tone=Tone.WAITING) for missing in payload.texts("missing")),
        ),
    )


def _others(rules: list[Recorded], *, why: str) -> Iterator[Line]:
    """The rules that matched as well, though it was not they that decided."""
    for rule in rules:
        name = f"rule {rule.text('id')} of contract {rule.text('contract')}"
        if name not in why:
            yield Line(label="also", text=f"{rule.text('effect')} by {name}: {rule.text('rationale')}".rstrip(": "))


def _approved(payload: Recorded, known: Known) -> Description:
    return _judged(payload, known, verb="approved", tone=Tone.GOOD)


def _rejected(payload: Recorded, known: Known) -> Description:
    return _judged(payload, known, verb="rejected", tone=Tone.BAD)


def _judged(payload: Recorded, known: Known, *, verb: str, tone: Tone) -> Description:
    return Description(
        title=f"run of {known.workflow(payload)} {verb} by {payload.text('approver', 'caller') or 'unknown'}",
        tone=tone,
        lines=lines(Line(label="reason", text=payload.text("reason"))),
    )


def _started(payload: Recorded, known: Known) -> Description:
    return Description(title=f"{_run(payload, known)} started")


def _finished(payload: Recorded, known: Known) -> Description:
    said, tone = _PHASES.get(payload.text("phase"), (f"ended as {payload.text('phase') or 'unknown'}", Tone.WAITING))
    return Description(
        title=f"{_run(payload, known)} {said}{_after(payload, known)}",
        tone=tone,
        lines=lines(
            Line(label="reason", text=payload.text("reason")),
            Line(label="as", text=_object(payload.inner("reference"))),
            Line(label="", text=payload.text("message")),
            (Line(label="output", text=f"{name}: {value}") for name, value in payload.inner("outputs").pairs()),
        ),
    )


def _verified(payload: Recorded, known: Known) -> Description:
    said, tone = _OUTCOMES.get(payload.text("outcome"), ("has an unknown outcome", Tone.WAITING))
    seen = Line(label="seen", text=payload.text("feedback"))
    return Description(title=f"{_run(payload, known)} {said}", tone=tone, lines=lines(seen))


def _cancelled(payload: Recorded, known: Known) -> Description:
    return Description(
        title=f"{_run(payload, known)} was cancelled{_after(payload, known)}",
        tone=Tone.BAD,
        lines=lines(Line(label="reason", text=payload.text("reason")), Line(label="", text=payload.text("message"))),
    )


def _refused(payload: Recorded, known: Known) -> Description:
    why = payload.text("message") or payload.inner("result").text("error")
    return Description(
        title=f"run of {known.workflow(payload)} refused",
        tone=Tone.BAD,
        lines=lines(Line(label="reason", text=payload.text("reason")), Line(label="", text=why, tone=Tone.BAD)),
    )


def _halt_begun(payload: Recorded, known: Known) -> Description:
    return Description(
        title=f"runs halted {payload.text('where')} by {payload.text('caller')}",
        tone=Tone.BAD,
        lines=lines(
            Line(label="reason", text=payload.text("reason")),
            (Line(label="ends", text=run) for run in payload.texts("runs")),
        ),
    )


def _halt_lifted(payload: Recorded, known: Known) -> Description:
    return Description(
        title=f"halt lifted {payload.text('where')} by {payload.text('caller')}: new runs may begin",
        tone=Tone.GOOD,
        lines=lines(Line(label="reason", text=payload.text("reason"))),
    )


def _run(payload: Recorded, known: Known) -> str:
    return f"{'dry run' if known.dry else 'run'} of {known.workflow(payload)}"


def _place(payload: Recorded) -> str:
    namespace = payload.text("namespace")
    return payload.text("invocation_id") + (f" in namespace {namespace}" if namespace else "")


def _object(reference: Recorded) -> str:
    """`shop/Deployment/web`."""
    return "/".join(part for name in ("namespace", "kind", "name") if (part := reference.text(name)))


def _after(payload: Recorded, known: Known) -> str:
    seconds = payload.number("duration_seconds")
    took = known.ran_for if seconds is None else seconds
    return f" after {spell_duration(took)}" if took is not None else ""


RUN_DESCRIPTIONS: Mapping[str, Callable[[Recorded, Known], Description]] = {
    "invocation.requested": _requested,
    "invocation.decided": _decided,
    "invocation.approved": _approved,
    "invocation.rejected": _rejected,
    "invocation.started": _started,
    "invocation.finished": _finished,
    "invocation.verified": _verified,
    "invocation.cancelled": _cancelled,
    "invocation.refused": _refused,
    "halt.begun": _halt_begun,
    "halt.lifted": _halt_lifted,
}
