"""The arms without a server: all descriptions in the prompt, label boosts, and flat tools with hybrid search."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from agents.choosers import words
from agents.questions import Demand, Question
from agents.remedies import Remedy
from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.model import BUNDLED, locate
from text_vectors import cached_vectors

TOP = 10
_K1, _B = 1.5, 0.75
_Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Offer:
    """What an arm offers for a question, in order, and what that costs. `confidence` only where the arm gives one.

    `listed` of the tokens are definitions of its tools, which one session reads once.
    """

    names: tuple[str, ...]
    tokens: int
    calls: int
    listed: int = 0
    confidence: float = 1.0
    ranked: bool = True


Arm = Callable[[Question], Offer]


class Tokens:
    """Counts tokens as the bundled model splits a text."""

    def __init__(self) -> None:
        self._tokenizer: Any = Tokenizer.from_file(str(locate(BUNDLED).path / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def __call__(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


class Index:
    """The texts of a catalog, compared by words (BM25) and by vectors."""

    def __init__(self, remedies: Sequence[Remedy], *, embedder: Embedder, asked: Sequence[str]) -> None:
        self.remedies = remedies
        self._vectors = cached_vectors(embedder, [each.text for each in remedies])
        distinct = sorted({*asked})
        self._queries = dict(zip(distinct, cached_vectors(embedder, distinct), strict=True))

    def cosines(self, query: str) -> _Scores:
        found: _Scores = (self._vectors @ self._queries[query]).astype(np.float64)
        return found

    def bm25(self, query: str) -> _Scores:
        scores = np.zeros(len(self.remedies))
        for word in sorted(words(query)):
            if word in self._postings:
                places, weights = self._postings[word]
                scores[places] += weights
        return scores

    @cached_property
    def _postings(self) -> Mapping[str, tuple[npt.NDArray[np.int64], _Scores]]:
        texts = [each.text.casefold().replace("-", " ").split() for each in self.remedies]
        counts = [Counter(word for part in text for word in words(part)) for text in texts]
        mean = sum(map(len, texts)) / len(texts)
        found: dict[str, list[tuple[int, float]]] = {}
        for place, (count, text) in enumerate(zip(counts, texts, strict=True)):
            for word, times in count.items():
                weight = times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * len(text) / mean))
                found.setdefault(word, []).append((place, weight))
        return {
            word: (
                np.array([place for place, _ in places]),
                np.array([weight for _, weight in places])
                * np.log(1 + (len(texts) - len(places) + 0.5) / (len(places) + 0.5)),
            )
            for word, places in found.items()
        }


def told(question: Question) -> str:
    """The query with the demands in words, for arms that learn them from nobody else."""
    return f"{question.query} {question.incident.demand.words}"


def in_prompt(remedies: Sequence[Remedy], tokens: Tokens) -> Arm:
    """A: all of them, as skills in a prompt."""
    offer = Offer(
        names=tuple(each.name for each in remedies),
        tokens=sum(tokens(each.text) for each in remedies),
        calls=0,
        ranked=False,
    )
    return lambda _: offer


def boosted(index: Index, tokens: Tokens) -> Arm:
    """C: cosine and boosts for labels. A simulation of upstream's v1, from its documents."""

    @cache
    def boosts(demand: Demand) -> _Scores:
        return np.array([_boost(each.spec, demand.terms) for each in index.remedies])

    def offer(question: Question) -> Offer:
        scores = np.minimum(index.cosines(told(question)) + boosts(question.incident.demand), 1)
        best = [index.remedies[place] for place in _best(scores)]
        answer = [{"workflow_id": each.name, "description": each.text} for each in best]
        return Offer(names=tuple(each.name for each in best), tokens=tokens(json.dumps(answer)), calls=1)

    return offer


def flat_tools(index: Index, tokens: Tokens) -> Arm:
    """D: each workflow a tool, found by a hybrid search of tools."""
    sizes = {each.name: tokens(json.dumps(_tool(each))) for each in index.remedies}

    def offer(question: Question) -> Offer:
        query = told(question)
        scores = _scaled(index.cosines(query)) + _scaled(index.bm25(query))
        best = tuple(index.remedies[place].name for place in _best(scores))
        return Offer(names=best, tokens=sum(sizes[name] for name in best), calls=1)

    return offer


def _boost(spec: Mapping[str, Any], terms: Mapping[str, Any]) -> float:
    custom, detected = spec.get("customLabels") or {}, spec.get("detectedLabels") or {}
    environments = spec["labels"]["environment"]
    boost = 0.05 if {"*", terms["environment"]} & {*environments} else -0.05
    if "gitOpsManaged" in detected:
        boost += 0.10 if detected["gitOpsManaged"] == terms["detected"]["gitOpsManaged"] else -0.10
    return boost + sum(0.15 for key, values in terms["custom"].items() if custom.get(key) in values)


def _tool(remedy: Remedy) -> dict[str, Any]:
    """Its definition for a model."""
    fields = {each["name"]: {k: each[k] for k in ("type", "description")} for each in remedy.spec["parameters"]}
    needed = [each["name"] for each in remedy.spec["parameters"] if each["required"]]
    schema = {"type": "object", "properties": fields, "required": needed}
    return {"name": remedy.name, "description": remedy.text, "input_schema": schema}


def _best(scores: _Scores) -> list[int]:
    """The places of the best, ties by name, which is the order of the catalog."""
    return [int(place) for place in np.argsort(-np.round(scores, 9), kind="stable")[:TOP]]


def _scaled(scores: _Scores) -> _Scores:
    spread = float(np.ptp(scores))
    return (scores - scores.min()) / spread if spread else np.zeros_like(scores)
