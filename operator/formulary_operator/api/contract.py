"""GovernanceContract: what the operator reports about one. Its rules are those of the catalog's domain."""

from pydantic import Field

from formulary_catalog.domain.workflows.manifest import Model
from formulary_operator.api.status import Conditions, Generation


class ContractStatus(Model):
    """State of the contract. Written by the operator only."""

    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that this status describes."
    )
    conditions: Conditions = Field(
        default=[],
        description="Ready: the rules that were applied last are in force. If false, the last valid rules are in "
        "force, and the message names the field, the value and the problem.",
    )
