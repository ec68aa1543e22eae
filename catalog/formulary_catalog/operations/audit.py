"""Traces as people read them: which there are, the story of one, and its files."""

from formulary_catalog.domain.reading import TraceAnswer, TraceFiles, TracePage
from formulary_catalog.operations.arguments.reading import TraceArguments, TraceFilesArguments, TracesArguments
from formulary_catalog.operations.operation import Operation, Route

_TRACE_ID = {"trace_id": "`trace_id`, or the remediation id of its incident."}

TRACES = Operation(
    action="read.traces",
    arguments=TracesArguments,
    answer=TracePage,
    run=lambda call: call.services.traces.page(**call.arguments.page, caller=call.caller),
    route=Route(
        path="/traces",
        id="list_traces",
        tag="reading",
        summary="List traces",
        description="Traces of the namespaces in which the caller may use incidents, the last changed first.",
    ),
    of_incident=False,
)
TRACE = Operation(
    action="read.trace",
    arguments=TraceArguments,
    answer=TraceAnswer,
    run=lambda call: call.services.traces.story(**call.arguments.page, caller=call.caller),
    route=Route(
        path="/traces/{trace_id:path}",
        id="get_trace",
        tag="reading",
        summary="Read a trace",
        description="A page of its events, as they were recorded and in words, and whether its chain is intact.",
        errors=(404,),
        in_path=_TRACE_ID,
    ),
    of_incident=False,
)
TRACE_FILES = Operation(
    action="read.trace",
    arguments=TraceFilesArguments,
    answer=TraceFiles,
    run=lambda call: call.services.traces.files(call.arguments.trace_id, caller=call.caller),
    route=Route(
        path="/traces/{trace_id:path}/files",
        id="get_trace_files",
        tag="reading",
        summary="Read a trace as files",
        description="The files of `formulary trace export`: events as they were hashed, verdict, verification.",
        errors=(404,),
        in_path=_TRACE_ID,
    ),
    of_incident=False,
)

OPERATIONS = (TRACES, TRACE, TRACE_FILES)
