"""The one contract in a text that somebody gives, to be judged by or to be tried: nothing of it is put in force.

REST, the console and the `governance` commands read it here, so that all name the same line and rule.
"""

from formulary_catalog.domain.entry import ContractEntry
from formulary_catalog.domain.governance.contract import KIND
from formulary_catalog.errors import InvalidInput
from formulary_catalog.loading.documents import Rejection, documents_in, line_in
from formulary_catalog.loading.manifests import sort_out

MAX_CHARACTERS = 60_000
"""Of a text that is sent to a server, whose requests have at most 64 KiB."""


def given_contract(text: str, *, name: str, default_namespace: str) -> ContractEntry:
    """The contract; `name` is how messages call the text.

    Raises:
        InvalidInput: it is broken, or holds none or several; the message names line, field and rule.
    """
    manifests = sort_out(documents_in(text, name=name), default_namespace=default_namespace)
    if manifests.rejections:
        raise InvalidInput(_placed(manifests.rejections[0], text=text, name=name), field="manifest")
    if len(manifests.contracts) != 1:
        found = f"{len(manifests.contracts)} of them" if manifests.contracts else "none"
        raise InvalidInput(
            f"{name}: must hold one {KIND} of formulary.dev/v1alpha1, and holds {found}; give the manifest of one",
            field="manifest",
        )
    return manifests.contracts[0].contract


def _placed(rejection: Rejection, *, text: str, name: str) -> str:
    """The message, with the line where the field is; what is no YAML says its line, one of several its number."""
    if rejection.source != name or not rejection.field:
        return rejection.message
    return f"{name}: line {line_in(text, rejection.field)}: {rejection.message.removeprefix(f'{name}: ')}"
