"""AIAnalysis as it is written upstream: what the catalog reads of it, and the rest, which is kept for its owner.

Only the schema comes from here. What upstream bounds or requires beyond the catalog's own rules is left to upstream.
"""

from typing import Any

from pydantic import Field

from formulary_catalog.domain import incidents


class SignalContext(incidents.SignalContext):
    __doc__ = incidents.SignalContext.__doc__

    fingerprint: str | None = Field(default=None, description="Identifies the alert, to recognise repeats.")
    signal_mode: str | None = Field(
        default=None, description="Whether the incident has happened (reactive) or is predicted (proactive)."
    )
    signal_annotations: dict[str, str] | None = Field(default=None, description="Annotations of the alert.")


class AnalysisRequest(incidents.AnalysisRequest):
    __doc__ = incidents.AnalysisRequest.__doc__

    signal_context: SignalContext
    analysis_types: list[str] | None = Field(
        default=None, description="Requested analyses: Investigation, RootCause, WorkflowSelection."
    )


class AnalysisSpec(incidents.AnalysisSpec):
    __doc__ = incidents.AnalysisSpec.__doc__

    analysis_request: AnalysisRequest
    remediation_request_ref: dict[str, Any] | None = Field(
        default=None, description="The RemediationRequest that this analysis belongs to."
    )
    times_out_at: str | None = Field(default=None, description="Time after which the analysis is abandoned.")
    cluster_id: str | None = Field(default=None, alias="clusterID", description="Id of the cluster of the incident.")
