"""The one exception tree.

Every error that a user can meet is a `FormularyError`: its message is one line that names the bad value, the rule
and the next step, and never holds custom labels, tokens or internals. The class decides how each edge reports it
(DESIGN section 7 for the codes, section 11 for the exit codes).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class FormularyError(Exception):
    """Base of all errors with a meaning to the user. `str(error)` is the message to show."""

    rpc_code: ClassVar[int] = -32003
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False


class InvalidInput(FormularyError):
    """An argument breaks a rule of the contract."""

    rpc_code = -32002
    http_status = 400
    exit_code = 2

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class NoWorkflowName(InvalidInput):
    """What a call names can be no name of a workflow, so nothing has it: to a caller it is not found."""

    rpc_code = -32001
    http_status = 404

    def __init__(self, message: str, *, workflow_id: str) -> None:
        super().__init__(message, field="workflow_id")
        self.workflow_id = workflow_id


class InputRefused(InvalidInput):
    """The input of a run breaks rules of its workflow's parameters; `problems` has each one. Nothing was created."""

    def __init__(self, message: str, *, problems: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(message, field="input")
        self.problems = tuple(problems)


class NotFound(FormularyError):
    """Nothing visible to this caller has that name."""

    rpc_code = -32001
    http_status = 404

    def __init__(self, message: str, *, reference: str) -> None:
        super().__init__(message)
        self.reference = reference


class UnknownWorkflow(NotFound):
    """No workflow that the caller may see has that name; `nearest` are names that it may see."""

    def __init__(self, reference: str, *, nearest: Sequence[str] = ()) -> None:
        near = f"nearest names: {', '.join(nearest)}; " if nearest else ""
        super().__init__(
            f"workflow {reference!r} is not found among the workflows allowed here; {near}take a name from "
            "the results of a search",
            reference=reference,
        )
        self.nearest = tuple(nearest)


class UnknownDocument(NotFound):
    """No document that the caller may read has that id or address; `nearest` are those of some that it may read."""

    def __init__(self, reference: str, *, nearest: Sequence[str] = ()) -> None:
        near = f"the nearest are {', '.join(nearest)}: take one of these, or " if nearest else ""
        super().__init__(
            f"document {reference!r} is not found among those that may be read here; {near}a search of "
            "documents finds ids",
            reference=reference,
        )
        self.nearest = tuple(nearest)


class ContextError(FormularyError):
    """The incident a call belongs to is missing, unknown or contradictory: the call fails closed (DESIGN section 6)."""

    rpc_code = -32002
    http_status = 400
    exit_code = 2


class TargetMissing(ContextError):
    """What a call names as its target, or the namespace of that, does not exist."""


class InvalidManifest(FormularyError):
    """A document cannot be accepted. Names file, field, value and rule; its neighbours are unaffected.

    `problems` has a field and what is wrong with it each, all of them; the message may name the first ones alone.
    """

    rpc_code = -32002
    http_status = 400

    def __init__(self, message: str, *, source: str, field: str, problems: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.source = source
        self.field = field
        self.problems = tuple(problems)

    @property
    def detail(self) -> str:
        """The message without the source, for readers who have the document in front of them."""
        return str(self).removeprefix(f"{self.source}: ")


class VersionImmutable(InvalidManifest):
    """The same version was applied with other content; the stored content stays served (DESIGN section 3)."""


class TooLarge(FormularyError):
    """A value does not fit into the place of the database that it is for; the same call fails again."""

    rpc_code = -32002
    http_status = 400
    exit_code = 2


class NotAuthenticated(FormularyError):
    """The caller did not prove who it is. `problem` is one of the error codes of RFC 6750, section 3.1."""

    rpc_code = -32000
    http_status = 401

    def __init__(self, message: str, *, problem: str = "invalid_token") -> None:
        super().__init__(message)
        self.problem = problem


class NotAllowed(FormularyError):
    """The caller is known and lacks a right that the call needs."""

    rpc_code = -32000
    http_status = 403
    exit_code = 2


class NotInvocable(FormularyError):
    """The workflow can be read and not run: it lacks something, or nothing here can run it."""

    rpc_code = -32002
    http_status = 400
    exit_code = 2


class NoExecutor(FormularyError):
    """Nothing runs workflows here, or nothing with the engine that is needed."""

    exit_code = 3


class RunRefused(FormularyError):
    """The rules do not allow the run. `decision` says which, as it was recorded."""

    http_status = 403

    def __init__(self, message: str, *, invocation_id: str, decision: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.invocation_id = invocation_id
        self.decision = decision


class RunFailed(FormularyError):
    """The run ended without success. `invocation_id` names the run to read more about."""

    def __init__(self, message: str, *, invocation_id: str) -> None:
        super().__init__(message)
        self.invocation_id = invocation_id


class RunTimedOut(RunFailed):
    """The run took longer than it may."""

    rpc_code = -32004
    http_status = 408


class RateLimited(FormularyError):
    """The caller asks for more than it may; `retry_after` in seconds says when there is room again."""

    http_status = 429
    exit_code = 3

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(FormularyError):
    """Something we depend on does not answer now; the same call may succeed later."""

    http_status = 503
    exit_code = 3
    retryable = True


class Overloaded(Unavailable):
    """More calls came than can be worked on, and this one was not begun; come back after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotSetUp(Unavailable):
    """What was asked for needs a setting that this process does not have; the message says which."""

    retryable = False


class EmbedderUnavailable(Unavailable):
    """The embedding model cannot be loaded or run; searches go on in `lexical` mode."""


class TextsRefused(EmbedderUnavailable):
    """The model works but does not take these texts: too many at once, or one that it will not have."""


class StartupError(FormularyError):
    """The process cannot start as asked; the message says the way out."""

    exit_code = 3


class DirectoryInUse(StartupError):
    """Another process runs the PostgreSQL of a data directory; `holder` says which."""

    def __init__(self, message: str, *, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


class PrivilegedLogin(StartupError):
    """The database user of a server could undo row-level security."""


class NotMigrated(StartupError):
    """The schema of the database is missing or older: `formulary migrate` cures it, without a restart."""
