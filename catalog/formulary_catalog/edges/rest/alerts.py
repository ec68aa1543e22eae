"""The address to which other systems send alerts: `POST /api/v1/incidents/NAMESPACE/SOURCE` (DESIGN section 15).

The edge has found out which source the sender is, by the secret of the source or by the mere presence of a signature,
which covers the body and is checked before that is parsed. Here the body is handed on, and answered once it is stored:
a sender that is not answered with 200 sends it again.
"""

from fastapi import APIRouter, Request, Response

from formulary_catalog.edges.http.senders import source_of
from formulary_catalog.edges.rest.calls import PREFIX, Guarded, answered, check_query, object_body
from formulary_catalog.edges.rest.openapi import error_responses, operation
from formulary_catalog.services.incidents.receiving import SIGNATURE_HEADER, AlertReceiving, ReceivedAlerts

router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["alerts"])
_BODY = {
    "required": True,
    "content": {"application/json": {"schema": {"type": "object", "additionalProperties": True}}},
}


@router.post(
    "/incidents/{namespace}/{source}",
    operation_id="receive_alerts",
    summary="Send alerts",
    response_model=ReceivedAlerts,
    responses=error_responses(413, 415),
    openapi_extra=operation(of_incident=False) | {"requestBody": _BODY},
)
async def receive_alerts(request: Request, namespace: str, source: str) -> Response:
    """The webhook of an IncidentSource, with its secret: that of Alertmanager, Grafana or PagerDuty, or any JSON."""
    check_query(request)
    receiving: AlertReceiving = request.app.state.alerts
    sender, signature = source_of(request), request.headers.get(SIGNATURE_HEADER, "")
    receiving.require_signature(sender, raw=await request.body(), signature=signature)
    return answered(await receiving.receive(sender, await object_body(request)))
