"""GovernanceContract: what the operator tells about one. Its rules are those of the catalog's domain."""

from pydantic import Field

from formulary_catalog.domain.workflows.manifest import Model
from formulary_operator.api.status import Conditions, Generation


class ContractStatus(Model):
    """Whether the rules are in force. Written by the operator alone."""

    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that all this is said of."
    )
    conditions: Conditions = Field(
        default=[],
        description="Ready: the rules as they were applied last are in force. Where it is false, the last good ones "
        "are, and the message names the field, the value and the rule that it breaks.",
    )
