"""What a page is asked for: the fields of its address, checked as arguments of an endpoint are, and files of forms.

Pages belong to no incident; one that is looked at is a field like any other.
"""

from typing import Any

from fastapi import Request
from starlette.datastructures import FormData, UploadFile

from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.edges.calls.audited_call import checked
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.rest.calls import services_of
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.target import with_target
from formulary_catalog.operations.operation import A, Call, Operation, R


def filled(request: Request) -> dict[str, Any]:
    """The fields that hold something: forms send blank ones as well. What is given several times is a list."""
    query = request.query_params
    given = {name: [value for value in query.getlist(name) if value.strip()] for name in query}
    return {name: values[0] if len(values) == 1 else values for name, values in given.items() if values}


async def asked(request: Request, action: str, model: type[A]) -> A:
    """The fields of the address as `model` has them; `action` is what the trail calls one that is refused.

    Raises:
        InvalidInput: a field is unknown, missing, of a wrong type or out of bounds.
        Unavailable: the catalog is not loaded yet.
    """
    given = {**filled(request), **request.path_params}
    _, arguments = await checked(
        lambda _: model.read(given),
        action=action,
        given=lambda: model.recordable(given),
        headers=None,
        trail=services_of(request).parts.trail,
        readiness=request.app.state.readiness,
        caller=visitor_of(request).caller,
    )
    return arguments


async def answer_to(request: Request, operation: Operation[A, R], *, arguments: A | None = None) -> R:
    """What the visitor is answered to an operation; without `arguments` they are the fields of the address.

    Raises:
        FormularyError: as `asked`, or the service's own.
    """
    if arguments is None:
        arguments = await asked(request, operation.action, operation.arguments)
    call = Call(
        services=services_of(request),
        arguments=arguments,
        context=with_target(ContextReference(), arguments),
        caller=visitor_of(request).caller,
        browsing=True,
    )
    return await operation.run(call)


async def file_text(form: FormData) -> str:
    """The text of the file in the form; empty without one.

    Raises:
        InvalidInput: it is not UTF-8.
    """
    file = form.get("file")
    if not isinstance(file, UploadFile):
        return ""
    try:
        return (await file.read()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the file is not UTF-8 text (byte {error.start}); save it as UTF-8", field="file") from None
