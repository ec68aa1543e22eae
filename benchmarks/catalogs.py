"""Catalogs of any size, the same for the same seed: real sentences, labels as people write them, tenants, versions."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from catalog_texts import KINDS, Text, texts
from formulary_catalog.domain.entry import CatalogEntry, catalog_entry
from formulary_catalog.domain.text import with_split_words

SEED = 5
LARGEST = "tenant-000"
"""The tenant that owns half of every catalog."""
CUSTOM_KEY = "team"
SEVERITIES = ("critical", "high", "medium", "low")
ENVIRONMENTS = ("production", "staging", "development", "test")
PRIORITIES = ("p0", "p1", "p2", "p3")
_RISKS = ("low", "medium", "high")
_CATEGORIES = ("payments", "checkout", "search", "analytics", "platform", "identity")
_CLUSTERS = tuple(f"cluster-{number}" for number in range(8))
_TEAMS = tuple(f"team-{number:02d}" for number in range(40))
_REGIONS = ("eu-west", "eu-central", "us-east", "us-west", "ap-south")
_DETECTED = ({"hpaEnabled": True}, {"gitOpsTool": "argocd"}, {"pdbProtected": True}, {"stateful": True}, {"helm": "*"})
_MOST_TENANTS = 500
_WORKFLOWS_EACH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One workflow of a catalog: its documents, oldest version first, of which the last is served.

    `text` is the position of its sentence in `Catalog.sentences`.
    """

    number: int
    namespace: str
    text: int
    documents: tuple[Mapping[str, Any], ...]

    def entries(self) -> list[CatalogEntry]:
        """The documents as the store takes them."""
        return [
            catalog_entry(document, source="bench", default_namespace=self.namespace) for document in self.documents
        ]


class Catalog:
    """`size` served workflows of 4 to 500 tenants, and the earlier versions of a quarter of them.

    One tenant owns half, the others follow Zipf's law. A workflow depends on the seed and its number only, but for
    its tenant, of which there are more in larger catalogs.
    """

    def __init__(self, size: int, *, seed: int = SEED) -> None:
        self.size = size
        self.seed = seed
        self.sentences: Sequence[Text] = texts()
        count = max(4, min(_MOST_TENANTS, size // _WORKFLOWS_EACH))
        self.tenants = [LARGEST, *(f"tenant-{number:03d}" for number in range(1, count))]
        others = [1 / rank for rank in range(1, count)]
        self._shares = list(accumulate([sum(others), *others]))

    def embedded_texts(self) -> list[str]:
        """The distinct texts that a model has to read, in the order of `sentences`."""
        return [
            with_split_words(f"{text.stem.replace('-', ' ')}. {text.when_to_use} {text.what}")
            for text in self.sentences
        ]

    def workflows(self) -> Iterator[Planned]:
        """All workflows, in order."""
        return map(self.workflow, range(self.size))

    def workflow(self, number: int) -> Planned:
        """One workflow."""
        rng = random.Random(f"{self.seed}/{number}")
        (namespace,) = rng.choices(self.tenants, cum_weights=self._shares)
        text = rng.randrange(len(self.sentences))
        served = _spec(self.sentences[text], rng=rng)
        (earlier,) = rng.choices((0, 1, 2), weights=(75, 18, 7))
        name = f"{self.sentences[text].stem}-{number:07d}"
        return Planned(
            number=number,
            namespace=namespace,
            text=text,
            documents=tuple(
                {
                    "apiVersion": "kubernaut.ai/v1alpha1",
                    "kind": "RemediationWorkflow",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {"version": f"1.{minor}.0", **served},
                }
                for minor in range(earlier + 1)
            ),
        )


def _spec(text: Text, *, rng: random.Random) -> dict[str, Any]:
    """All of a spec but its version; what is rare in real catalogs is rare here."""
    labels: dict[str, Any] = {
        "signalType": _signals(text, rng=rng),
        "severity": _declared(rng, SEVERITIES, most=3, wildcard=0.2),
        "environment": _declared(rng, ENVIRONMENTS, most=2, wildcard=0.25),
        "component": _declared(rng, (text.kind, rng.choice(KINDS)), most=2, wildcard=0.2),
        "priority": _declared(rng, PRIORITIES, most=2, wildcard=0.3),
        "cluster": _declared(rng, _CLUSTERS, most=2, wildcard=0.7, absent=0.1),
    }
    if rng.random() < 0.6:
        labels["riskTolerance"] = _declared(rng, _RISKS, most=2, wildcard=0.2)
    if rng.random() < 0.5:
        labels["businessCategory"] = _declared(rng, _CATEGORIES, most=2, wildcard=0.2)
    custom: dict[str, Any] = {}
    if rng.random() < 0.65:
        custom[CUSTOM_KEY] = _declared(rng, _TEAMS, most=3, wildcard=0.2)
    if rng.random() < 0.3:
        custom["region"] = _declared(rng, _REGIONS, most=2, wildcard=0.2)
    noun = text.kind.rpartition("/")[2]
    return {
        "title": f"{text.action_type} for {text.signals[0]}",
        "description": {"what": text.what, "whenToUse": text.when_to_use},
        "actionType": text.action_type,
        "labels": labels,
        "customLabels": custom,
        "detectedLabels": rng.choice(_DETECTED) if rng.random() < 0.3 else {},
        "keywords": [noun],
        "estimatedDuration": rng.choice(("2m", "5m", "10m", "30m")),
        "riskLevel": rng.choice(_RISKS),
        "parameters": [{"name": "TARGET", "type": "string", "required": True, "description": f"Name of the {noun}"}],
        "execution": {"engine": "job", "bundle": "registry.example/remedies/bench:1.0.0"},
    }


def _signals(text: Text, *, rng: random.Random) -> list[str]:
    """Its own signal and up to two more of the same trouble; one workflow in 200 answers any signal."""
    drawn = rng.random()
    if drawn < 0.005:
        return ["*"] if drawn < 0.0025 else []
    (more,) = rng.choices((0, 1, 2), weights=(65, 25, 10))
    return [text.signals[0], *rng.sample(text.signals[1:], more)]


def _declared(
    rng: random.Random, values: Sequence[str], *, most: int, wildcard: float, absent: float = 0.0
) -> list[str]:
    drawn = rng.random()
    if drawn < wildcard:
        return ["*"]
    if drawn < wildcard + absent:
        return []
    return rng.sample(values, rng.randint(1, most))
