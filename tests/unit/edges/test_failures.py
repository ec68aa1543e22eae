"""What the answer to a failed call says about trying again."""

import pytest

from formulary_catalog.edges.calls.failures import failure_of
from formulary_catalog.errors import FormularyError, NotFound, Unavailable


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NotFound("workflow 'retry-job' is not found", reference="retry-job"), "Retry: no, change the call first."),
        (Unavailable("the database does not answer"), "Retry: yes, the same call may succeed in a few seconds."),
    ],
)
def test_a_model_is_told_whether_to_try_again(error: FormularyError, said: str) -> None:
    assert failure_of(error).advice == f"{error}. {said}"


@pytest.mark.parametrize("message", ["ask for another run then.", "did you mean 'insight.catalog'?", "no such thing!"])
def test_a_message_that_ends_a_sentence_ends_it_once(message: str) -> None:
    assert (
        failure_of(Unavailable(message)).advice == f"{message} Retry: yes, the same call may succeed in a few seconds."
    )


def test_it_is_told_once() -> None:
    message = "too many searches wait; retry in a second"
    assert failure_of(Unavailable(message)).advice == message
