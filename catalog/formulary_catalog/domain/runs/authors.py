"""What becomes of a run where nobody knows who wrote its workflow: the admission webhook did not see it applied.

The settings of the operator decide. It announces them, so that `runs/preparation` answers a request as the operator
will judge the run; the operator's `runs/permits` checks each run itself. Pure.
"""

from enum import StrEnum


class UnknownAuthors(StrEnum):
    """What an operator does with workflows of unknown authors, the mildest first."""

    RUN = "run"
    APPROVE = "approve"
    REFUSE = "refuse"

    @property
    def strength(self) -> int:
        """Greater is stricter."""
        return list(UnknownAuthors).index(self)


def why_author_refused(workflow: str) -> str:
    """Why a workflow of an unknown author is not run where such are refused; `workflow` is namespace and name."""
    return (
        f"nobody knows who wrote workflow {workflow}; delete it and apply it again, while the admission webhook runs "
        "(FORMULARY_PROVEN_AUTHORS)"
    )
