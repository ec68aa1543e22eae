"""Which kinds of object an alert is about, and whether a remedy is about the same.

`states` calls it. A remedy that is about another kind of object covers no alert, however well its words fit: an ingress
controller is not scaled because a node is saturated.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from formulary_catalog.domain.text import split_camel_case, words
from formulary_catalog.domain.workflows.labels import WILDCARD, fold

_CONTROLLERS = frozenset({"deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob"})
"""What makes pods and owns them."""
_ALIKE = (
    frozenset({"deployment", "replicaset"}),
    frozenset({"job", "cronjob"}),
    frozenset({"persistentvolume", "persistentvolumeclaim"}),
    frozenset({"namespace", "resourcequota"}),
    frozenset({"service", "endpoints"}),
)
"""Kinds of which one makes or limits the other, so that a remedy for one is a remedy for both."""
_BY_SIGNAL = {
    "oomkilled": "Pod",
    "crashloopbackoff": "Pod",
    "imagepullbackoff": "Pod",
    "evicted": "Pod",
    "failedscheduling": "Pod",
    "failedmount": "Pod",
    "backofflimitexceeded": "Job",
    "deadlineexceeded": "Job",
}
"""The kinds of canonical signals that do not say so in their name."""
_WORDS = {
    "Pod": "pod container",
    "Node": "node kubelet",
    "HorizontalPodAutoscaler": "hpa",
    "PodDisruptionBudget": "pdb",
    "ResourceQuota": "quota",
    "PersistentVolumeClaim": "pvc",
    "PersistentVolume": "volume pv",
    "Deployment": "",
    "ReplicaSet": "",
    "StatefulSet": "",
    "DaemonSet": "",
    "CronJob": "",
    "Ingress": "",
}
"""Kinds by what names and summaries call them beside the kind itself."""
_WORDS_OF_NAMES = {"Job": "", "Service": "", "Namespace": "", "Endpoints": "endpoint", "Node": "host"}
"""The same for names alone: in a summary these words are about something else, such as the job of a scrape."""
_Phrases = dict[tuple[str, ...], str]


def bare_kinds(components: Iterable[str]) -> frozenset[str]:
    """The kinds that a workflow declares as its components, without API groups; `*` stands for all."""
    return frozenset(each.rpartition("/")[2] for each in components)


def kinds_of(name: str, summary: str, *, known: Collection[str] = ()) -> frozenset[str]:
    """The kinds of object that an alert is about; empty where nothing says so.

    Its name counts before its summary, of which the first kind counts: "a pod on a node that ..." is about the pod.
    `known` are further kinds, those of the remedies that were found; a single word, such as Certificate, may mean
    anything.
    """
    if of_signal := _BY_SIGNAL.get(fold(name)):
        return frozenset({of_signal})
    further = {phrase: kind for kind in known if len(phrase := _phrase(kind)) > 1}
    for phrases in (_IN_NAMES, further):
        if found := frozenset(_mentioned(_parts(name), phrases)):
            return found
    return frozenset(list(_mentioned(_parts(summary), further | _IN_SUMMARIES))[:1])


def is_same_kind(of_alert: Collection[str], of_remedy: Collection[str]) -> bool:
    """Whether a remedy for objects of these kinds is about an object that the alert is about.

    Pods belong to what owns them. A remedy for the pods of a Deployment alone is none for a DaemonSet.
    """
    alert, remedy = frozenset(map(fold, of_alert)), frozenset(map(fold, of_remedy))
    if WILDCARD in remedy:
        return True
    wanted = alert.union(*(alike for alike in _ALIKE if alike & alert))
    if "pod" in alert:
        wanted |= _CONTROLLERS
    elif alert & _CONTROLLERS and not remedy & _CONTROLLERS:
        wanted |= {"pod"}
    return bool(wanted & remedy)


def _parts(text: str) -> list[str]:
    return [_singular(part) for word in words(text) for part in split_camel_case(word)]


def _singular(part: str) -> str:
    return part.casefold().removesuffix("s")


def _phrase(kind: str) -> tuple[str, ...]:
    return tuple(_parts(kind))


def _mentioned(parts: Sequence[str], phrases: _Phrases) -> Iterator[str]:
    """The kinds in the order in which they are named; of several that begin with one word the longest name."""
    longest = max(map(len, phrases), default=0)
    start = 0
    while start < len(parts):
        length = next((size for size in range(longest, 0, -1) if tuple(parts[start : start + size]) in phrases), 0)
        if length:
            yield phrases[tuple(parts[start : start + length])]
        start += max(length, 1)


def _phrases_of(*vocabularies: dict[str, str]) -> _Phrases:
    return {
        _phrase(called): kind
        for vocabulary in vocabularies
        for kind, others in vocabulary.items()
        for called in (kind, *others.split())
    }


_IN_SUMMARIES = _phrases_of(_WORDS)
_IN_NAMES = _phrases_of(_WORDS, _WORDS_OF_NAMES)
