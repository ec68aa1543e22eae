"""Asks a live model behind any OpenAI-compatible URL the questions of FormularyBench, and counts what it chooses.

    python benchmarks/bench_agents.py --questions build/questions.jsonl
    PYTHONPATH=benchmarks python -m agents.live build/questions.jsonl --url https://models.example/v1 --model NAME

The key is read from OPENAI_API_KEY. Each result is a line with the model and the day it was asked, by
`result.schema.json`; `LIVE.md` says more. The product does not need it; it imports nothing but the standard library.
"""

import argparse
import json
import os
import re
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.arms import Offer
    from agents.questions import Question

SYSTEM = (
    "You are on call for a Kubernetes cluster. Choose the one remedy that fits the incident and that its owners allow. "
    "Answer with its name alone, or with the word none if no remedy fits or none is allowed."
)
NONE = "none"
_SECONDS = 120


def as_line(size: int, arm: str, question: "Question", offer: "Offer", *, allowed: Set[str]) -> str:
    """A question and what an arm offers for it, with what is right and what is forbidden, as one line of JSON."""
    incident = question.incident
    demands = "" if arm in "EF" else incident.demand.words
    return json.dumps(
        {
            "id": f"{size}/{arm}/{question.id}",
            "query": f"{question.query} {demands}".strip(),
            "offered": list(offer.names),
            "right": sorted(incident.right & {*offer.names}),
            "forbidden": sorted({*offer.names} - allowed),
            "answerable": bool(incident.right),
        }
    )


def ask(line: dict[str, Any], *, descriptions: Mapping[str, str], url: str, model: str, key: str) -> dict[str, Any]:
    """The result for one question: what was chosen, empty for nothing, and what it took."""
    offered = "\n".join(f"- {descriptions[name]}" for name in line["offered"]) or "(nothing)"
    body = {
        "model": model,
        "temperature": 0,
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"{line['query']}\n\nRemedies:\n{offered}"},
        ],
    }
    request = urllib.request.Request(
        f"{url.rstrip('/')}/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as response:
        answer = json.load(response)
    said = answer["choices"][0]["message"]["content"] or ""
    chosen = chosen_of(said, line["offered"])
    return {
        "id": line["id"],
        "model": answer.get("model", model),
        "date": datetime.now(UTC).date().isoformat(),
        "chosen": chosen,
        "right": chosen in line["right"] if line["answerable"] else not chosen,
        "forbidden": chosen in line["forbidden"],
        "tokens": answer.get("usage", {}).get("total_tokens"),
    }


def chosen_of(said: str, offered: Iterable[str]) -> str:
    """The offered name that is said; of several the one said first, of those the longest. Empty for none."""
    found = [
        (place.start(), -len(name), name)
        for name in offered
        if (place := re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", said))
    ]
    return min(found)[2] if found else ""


def results(
    lines: Iterable[str], *, url: str, model: str, key: str, only: Sequence[str] = ("",)
) -> Iterator[dict[str, Any]]:
    """Asks one question after another whose id begins so. The first line has the descriptions of all remedies."""
    left = iter(lines)
    descriptions = json.loads(next(left))["descriptions"]
    for line in map(json.loads, left):
        if line["id"].startswith(tuple(only)):
            yield ask(line, descriptions=descriptions, url=url, model=model, key=key)


def totals(found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """For each catalog and arm, how many results are right and forbidden."""
    counts: dict[str, Counter[str]] = {}
    for each in found:
        size, arm, _ = each["id"].split("/", 2)
        counts.setdefault(f"{size}/{arm}", Counter()).update(
            questions=1, right=each["right"], forbidden=each["forbidden"]
        )
    for name, count in counts.items():
        yield f"{name}: {count['right']} right, {count['forbidden']} forbidden of {count['questions']}"


def main() -> None:
    """Ask all questions of a file; write a line for each result to standard output."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--url", required=True, help="base of the API, ending in /v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--only", action="append", help="ids begin so, such as 500/E; may be repeated")
    options = parser.parse_args()
    key, found = os.environ.get("OPENAI_API_KEY", ""), []
    with options.questions.open(encoding="utf-8") as lines:
        for result in results(lines, url=options.url, model=options.model, key=key, only=options.only or ("",)):
            sys.stdout.write(json.dumps(result) + "\n")
            found.append(result)
    sys.stderr.writelines(f"{line}\n" for line in totals(found))


if __name__ == "__main__":
    main()
