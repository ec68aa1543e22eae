"""`formulary draft`: what people have becomes a suspended workflow that validates and says what is to be decided."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.commands import formulary

RUNBOOK = """---
title: Node disk full
alerts: [NodeFilesystemAlmostOutOfSpace]
description: The disk of a node is nearly full.
---
# Node disk full

Removes unused images from a node.

## Symptoms

- `kubectl get nodes` shows pressure

## Possible causes

- Logs of containers

## When not to use

Not if the volume is a claim.

## Prerequisites

SSH to the node.

## Steps

1. Look at what fills the disk, don't guess:

   ```bash
   kubectl debug node/<node-name> -it -- df -h  # don't guess
   ```
2. Remove images with `crictl rmi --prune`.
3. Call the storage team.

```console
$ kubectl -n <my-namespace> delete pod '<pod>' --grace-period="${GRACE}"
pod "x" deleted
```

```yaml
not: a command
```

## Later

TODO

## Rollback

```
kubectl uncordon <node-name>
```
"""
SSM = """
schemaVersion: "0.3"
description: Restarts a service on a node.
parameters:
  ServiceName: {type: String, description: Unit to restart, default: kubelet, allowedPattern: "^[a-z]+$"}
  Force: {type: Boolean, description: Whether it is killed, default: false, allowedValues: [true, false]}
mainSteps:
  - name: restart
    action: aws:runShellScript
    inputs:
      runCommand:
        - systemctl restart {{ ServiceName }}
        - systemctl is-active '{{ ServiceName }}'
  - name: reboot
    action: aws:executeAwsApi
    inputs: {Service: ec2, Api: RebootInstances}
"""
RUNDECK = """
- name: Clean old files
  description: Removes old files from a volume.
  options:
    - {name: path, description: Directory, required: true}
    - {name: token, secure: true, value: hidden}
  sequence:
    commands:
      - {description: Remove, exec: "find ${option.path} -mtime +7 -delete"}
      - {description: Tell, script: "curl -H @option.token@ http://chat"}
      - {description: Notify, jobref: {name: Page the team}}
"""
HOLMES = """
runbooks:
  - match: {issue_name: "(KubeSchedulerDown)|(KubeControllerManagerDown)"}
    instructions: Look at `kubectl -n kube-system get pods`.
"""


async def drafted(path: Path, text: str) -> dict[str, Any]:
    """The spec of the draft of a file; it validates, and is the same each time."""
    path.write_text(text)  # noqa: ASYNC240  # a small file
    done = await formulary("draft", str(path))
    assert (done.code, done.err) == (0, "")
    assert (await formulary("draft", str(path))).out == done.out
    assert "# Decide: remove this once everything below is right.\n  suspend: true\n" in done.out
    (path.parent / "out.yaml").write_text(done.out)
    checked = await formulary("validate", str(path.parent / "out.yaml"))
    assert checked.code == 0, checked.out
    spec: dict[str, Any] = yaml.safe_load(done.out)["spec"]
    return spec


async def test_sections_and_commands_of_a_runbook_become_fields_and_steps(tmp_path: Path) -> None:
    spec = await drafted(tmp_path / "disk.md", RUNBOOK)
    assert spec["description"] == {
        "what": "Removes unused images from a node.",
        "whenToUse": "The disk of a node is nearly full. kubectl get nodes shows pressure",
        "whenNotToUse": "Not if the volume is a claim.",
        "preconditions": "SSH to the node.",
    }
    assert [step.get("command") for step in spec["steps"]] == [
        'kubectl debug node/"${NODE_NAME}" -it -- df -h  # don\'t guess',
        "crictl rmi --prune",
        None,
        'kubectl -n "${NAMESPACE}" delete pod \'\'"${POD}"\'\' --grace-period="${GRACE}"',
    ]
    assert spec["steps"][2]["description"] == "Call the storage team."
    assert "# Not taken over: section Possible causes\n" in (tmp_path / "out.yaml").read_text()
    assert [step["command"] for step in spec["rollbackSteps"]] == ['kubectl uncordon "${NODE_NAME}"']
    assert [each["name"] for each in spec["parameters"]] == ["NODE_NAME", "NAMESPACE", "POD", "GRACE"]
    assert spec["labels"]["signalType"] == ["NodeFilesystemAlmostOutOfSpace"]
    assert spec["labels"]["component"] == ["Pod"]
    assert spec["customLabels"] == {"restarts": "yes", "data-loss": "yes"}


async def test_a_skill_is_found_by_its_description(tmp_path: Path) -> None:
    (tmp_path / "pending").mkdir()
    skill = (
        "---\nname: pending-pods\ndescription: Pods hang in Pending.\n---\n\n## Steps\n\n- `kubectl uncordon <node>`\n"
    )
    spec = await drafted(tmp_path / "pending" / "SKILL.md", skill)
    assert spec["description"]["whenToUse"] == "Pods hang in Pending."
    assert spec["labels"]["component"] == ["Node"]


async def test_documents_of_systems_manager_are_drafted_and_what_only_they_can_do_is_named(tmp_path: Path) -> None:
    spec = await drafted(tmp_path / "restart-service.yaml", SSM)
    restart, reboot = spec["steps"]
    assert restart["command"] == "systemctl restart \"${SERVICE_NAME}\"\nsystemctl is-active ''\"${SERVICE_NAME}\"''"
    assert "command" not in reboot
    assert "aws:executeAwsApi ec2 RebootInstances" in reboot["description"]
    assert "# Not taken over: step reboot: aws:executeAwsApi" in (tmp_path / "out.yaml").read_text()
    parameter, flag = spec["parameters"]
    assert (parameter["default"], parameter["pattern"], parameter["required"]) == ("kubelet", "^[a-z]+$", False)
    assert (flag["default"], flag["enum"]) == ("false", ["true", "false"])


async def test_jobs_of_rundeck_are_drafted_without_shadowing_the_path_or_copying_a_secret(tmp_path: Path) -> None:
    spec = await drafted(tmp_path / "job.yaml", RUNDECK)
    assert [step.get("command") for step in spec["steps"]] == [
        'find "${PATH_VALUE}" -mtime +7 -delete',
        'curl -H "${TOKEN}" http://chat',
        None,
    ]
    assert {each["name"]: each.get("sensitive") for each in spec["parameters"]} == {"PATH_VALUE": None, "TOKEN": True}
    assert "hidden" not in (tmp_path / "out.yaml").read_text()


async def test_runbooks_of_holmesgpt_are_drafted_for_the_alert_that_they_match(tmp_path: Path) -> None:
    spec = await drafted(tmp_path / "runbooks.yaml", HOLMES)
    assert spec["labels"]["signalType"] == ["KubeSchedulerDown", "KubeControllerManagerDown"]
    assert spec["steps"][0]["command"] == "kubectl -n kube-system get pods"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "text", "a.txt: is none of the files that are read: a Markdown runbook or SKILL.md"),
        ("a.yaml", "a: 1", "a.yaml: is nothing that a draft is made of; give a Markdown runbook"),
        ("a.yaml", "a: [", "a.yaml: line 2: "),
        ("a.md", "# Only a title", "a.md: has no steps"),
        ("catalog.json", '{"catalog": [{"link": "a.md"}]}', "is a catalog of runbooks; draft from its files: a.md"),
        ("a.md", "# A\n\n```bash\nkubectl get po\u202e\n```\n", "no valid workflow can be drafted from it"),
    ],
)
async def test_what_no_draft_is_made_of_is_refused_with_what_is_read(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    done = await formulary("draft", str(tmp_path / name))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
