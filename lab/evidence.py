"""What an agent would paste: the alert as Alertmanager sends it, and the output of the commands that it would run."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from lab.fault import Fault
from lab.shell import Shell

MOST_CHARACTERS = 4000
"""Of a query; models paste as much as they may."""
_CUT = "\n...\n"
_ADDRESS = re.compile(r"\b10\.(?:244|0)\.\d+\.\d+\b")


def collect(fault: Fault, shell: Shell) -> dict[str, str]:
    """The texts, by what they are: `alert`, then each command."""
    return {"alert": alert_text(fault)} | {
        command: _without_addresses(shell.output(command.replace("kubectl ", "k ", 1))).strip()
        for command in fault.evidence
    }


def pasted(evidence: Mapping[str, str]) -> str:
    """All of it as one query. Where it is too long, the longest texts give up their middle."""
    texts = {name: text if name == "alert" else f"$ {name}\n{text}" for name, text in evidence.items() if text}
    most = _fair_share([len(text) for text in texts.values()], total=MOST_CHARACTERS - 2 * len(texts))
    return "\n\n".join(_shortened(text, most) for text in texts.values())


def described(fault: Fault) -> str:
    """The query that the description of the search tool asks of an agent: signal, severity, and what it concluded."""
    return f"{fault.signal} {fault.severity}: {fault.root_cause}"


def alert_text(fault: Fault) -> str:
    """The alert in the JSON of Alertmanager's webhook, with the labels that scraping adds."""
    labels = {
        "alertname": fault.alert.name,
        "severity": fault.alert.severity,
        "namespace": fault.namespace,
        "job": "kube-state-metrics",
        "prometheus": "monitoring/k8s",
        **fault.alert.labels,
    }
    alert = {
        "status": "firing",
        "labels": labels,
        "annotations": {"summary": fault.alert.summary, "description": fault.alert.description},
        "startsAt": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return json.dumps({"status": "firing", "receiver": "agents", "alerts": [alert]}, indent=1)


def _fair_share(lengths: Sequence[int], *, total: int) -> int:
    """The length above which texts are cut, so that all together have at most `total`."""
    left, share = total, total
    for number, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - number)
        if length > share:
            return share
        left -= length
    return max([share, *lengths])


def _shortened(text: str, most: int) -> str:
    """The beginning and the end: names and states stand first, events last."""
    if len(text) <= most:
        return text
    head = (most - len(_CUT)) // 2
    return f"{text[:head]}{_CUT}{text[len(text) - (most - len(_CUT) - head) :]}"


def _without_addresses(text: str) -> str:
    return _ADDRESS.sub("10.1.2.3", text)
