"""What a Job's container can read and write beside its image."""

import re
from collections.abc import Sequence

from formulary_catalog.domain.workflow import NamedReference
from formulary_operator.engines.config import unrunnable
from formulary_operator.engines.environment import SCRATCH
from formulary_operator.engines.plan import Json, RunPlan

SECRETS_PATH = "/run/kubernaut/secrets"
CONFIG_MAPS_PATH = "/run/kubernaut/configmaps"
"""Where bundles of the existing ecosystem look."""

_SCRATCH_SIZE = "1Gi"
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def volumes_of(plan: RunPlan) -> tuple[list[Json], list[Json]]:
    """Volumes and mounts: scratch space, and what the workflow depends on, read-only.

    Raises:
        NotInvocable: a dependency has a name that no object can have.
    """
    needed = plan.workflow.spec.dependencies
    sources: list[tuple[str, Json]] = [
        (f"{SECRETS_PATH}/{name}", {"name": f"secret-{index}", "secret": {"secretName": name}})
        for index, name in enumerate(_names(needed.secrets, plan=plan))
    ]
    sources += [
        (f"{CONFIG_MAPS_PATH}/{name}", {"name": f"configmap-{index}", "configMap": {"name": name}})
        for index, name in enumerate(_names(needed.config_maps, plan=plan))
    ]
    scratch = {"name": "scratch", "emptyDir": {"sizeLimit": _SCRATCH_SIZE}}
    mounts = [{"name": volume["name"], "mountPath": path, "readOnly": True} for path, volume in sources]
    return [scratch, *(volume for _, volume in sources)], [{"name": "scratch", "mountPath": SCRATCH}, *mounts]


def _names(references: Sequence[NamedReference], *, plan: RunPlan) -> list[str]:
    """Each name once. A name becomes part of a path, so that it must be one."""
    for reference in references:
        if not _OBJECT_NAME.fullmatch(reference.name):
            raise unrunnable(
                plan.workflow, f"spec.dependencies names {reference.name!r}, which no object can be called; correct it"
            )
    return list(dict.fromkeys(reference.name for reference in references))
