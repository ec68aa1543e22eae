"""Workflows of teams that have nothing to do with operating Kubernetes: what a team's label must never push forward."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

_SUBJECTS = (
    ("exchange rates", "finance desk", "quotes in the price list are of yesterday"),
    ("loyalty points", "customer care", "members miss points of their last purchase"),
    ("newsletter segments", "marketing", "a campaign went to readers who had opted out"),
    ("product search index", "shop", "new articles do not appear in the shop"),
    ("invoice numbers", "accounting", "two invoices carry one number"),
    ("shipping labels", "warehouse", "parcels carry the label of another customer"),
    ("gift vouchers", "shop", "vouchers are refused at the till"),
    ("tax tables", "accounting", "receipts show the rate of last year"),
    ("seat maps", "booking", "sold seats are still offered"),
    ("recommendation lists", "shop", "buyers see articles that they own already"),
    ("fraud scores", "risk desk", "good customers are held back at checkout"),
    ("claims letters", "insurance", "letters were printed in the wrong language"),
    ("lesson calendars", "school", "classes show in two rooms at once"),
    ("patient reminders", "clinic", "reminders went out for cancelled visits"),
    ("meter readings", "utility", "readings of a street are missing on bills"),
    ("parking permits", "city office", "permits expired a month early"),
    ("song royalties", "label", "artists were paid for each other's plays"),
    ("rental contracts", "real estate", "contracts show the rent of another flat"),
    ("survey answers", "research", "answers of one panel are counted twice"),
    ("menu translations", "restaurants", "dishes show without their allergens"),
)
_ACTIONS = (
    ("recompute", "Recompute", "Computes them again from the ledger and publishes the difference for review."),
    (
        "correct",
        "Correct",
        "Corrects the listed entries at the desk and writes a letter to those concerned.",
    ),
    ("withdraw", "Withdraw", "Withdraws what was published and puts the edition of the day before back."),
    ("reprint", "Reprint", "Prints them once more in the night run and sends the old ones to the shredder."),
    ("merge", "Merge", "Merges the doubled ones and keeps the older of each pair."),
    ("archive", "Archive", "Moves everything older than ten years to the paper archive."),
    ("announce", "Announce", "Tells customers by mail what happened and when it will be right again."),
    ("audit", "Audit", "Draws a sample of fifty and has the desk check it against the contracts."),
    ("import", "Import", "Takes the file of the partner in and lists what could not be matched."),
    ("approve", "Approve", "Collects the signatures of both desks and closes the month."),
)
MOST = len(_SUBJECTS) * len(_ACTIONS)


def unrelated_workflows(count: int, *, prefix: str, custom: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Any]]:
    """So many manifests, at most `MOST`, that declare these custom labels."""
    for (action, action_type, what), (subject, owner, when) in list(product(_ACTIONS, _SUBJECTS))[:count]:
        yield {
            "apiVersion": "kubernaut.ai/v1alpha1",
            "kind": "RemediationWorkflow",
            "metadata": {"name": f"{prefix}-{action}-{subject.replace(' ', '-')}"},
            "spec": {
                "version": "1.0.0",
                "description": {"what": what, "whenToUse": f"The {owner} reports that {when}."},
                "actionType": action_type,
                "labels": {"severity": "*", "environment": "*", "component": "*", "priority": "*"},
                "customLabels": {key: list(values) for key, values in custom.items()},
                "execution": {"engine": "job", "bundle": "registry.example.com/desk@sha256:" + "0" * 64},
            },
        }
