"""The environment of a Job's container: facts, parameters and a place to write to."""

import re
from typing import Any

from formulary_catalog.domain.workflow import RemediationWorkflow
from formulary_operator.engines.config import unrunnable
from formulary_operator.engines.parameters import facts, parameter_names, text_of
from formulary_operator.engines.plan import RunPlan

SCRATCH = "/tmp"

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_REFERENCE = re.compile(r"\$(?=[$(])")
# What decides which program runs, what it loads or whom it talks to must not come from a model.
_FORBIDDEN_PREFIXES = ("LD_", "DYLD_", "BASH_", "KUBERNETES_", "GIT_CONFIG", "GIT_SSH")
_FORBIDDEN = frozenset(
    "PATH HOME TMPDIR SHELL ENV IFS PS4 PWD CDPATH KUBECONFIG KUBE_EDITOR EDITOR VISUAL PAGER BROWSER HTTP_PROXY "
    "HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR CURL_HOME CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PYTHONPATH "
    "PYTHONHOME PYTHONSTARTUP PERL5LIB PERL5OPT RUBYLIB RUBYOPT NODE_OPTIONS NODE_PATH JAVA_TOOL_OPTIONS "
    "_JAVA_OPTIONS CLASSPATH GIT_EXEC_PATH GIT_ASKPASS GIT_EDITOR GIT_PAGER GIT_PROXY_COMMAND GCONV_PATH".split()
)


def environment(plan: RunPlan) -> list[dict[str, Any]]:
    """The variables of the container, each named once.

    Raises:
        NotInvocable: a parameter has a name that is no name of a variable, or one that it must not have.
        InvalidInput: a value cannot be a variable.
    """
    for name in parameter_names(plan):
        _require_allowed(name, workflow=plan.workflow)
    told = {"HOME": SCRATCH, "TMPDIR": SCRATCH, **facts(plan)}
    given = {name: text_of(value, name=name) for name, value in plan.values.items() if name not in plan.sensitive}
    return [
        *({"name": name, "value": literal(value)} for name, value in (told | given).items()),
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": plan.secret_name, "key": name}}}
            for name in sorted(plan.sensitive)
        ),
    ]


def literal(text: str) -> str:
    """The text in a form of which Kubernetes makes this text: it replaces `$(NAME)`, and makes one `$` of two."""
    return _REFERENCE.sub("$$", text)


def _require_allowed(name: str, *, workflow: RemediationWorkflow) -> None:
    if not _NAME.fullmatch(name):
        raise unrunnable(workflow, f"parameter {name!r} must be in capitals, digits and underscores; rename it")
    if name in _FORBIDDEN or name.startswith(_FORBIDDEN_PREFIXES):
        raise unrunnable(workflow, f"parameter {name} would change how programs run; rename it")
