"""`formulary-operator run` as the process of a pod: what it leaves in the log."""

import json
import os
import subprocess
import sys
from pathlib import Path


def test_the_last_line_of_an_operator_that_cannot_go_on_is_an_event_of_its_log(tmp_path: Path) -> None:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("FORMULARY_", "KUBE"))}
    settings = {
        "FORMULARY_DATABASE_URL": "postgresql://formulary_writer@db.test/formulary",
        "FORMULARY_HEALTH_PORT": "0",
        "KUBECONFIG": str(tmp_path / "absent"),
    }
    command = [str(Path(sys.executable).with_name("formulary-operator")), "run"]

    done = subprocess.run(command, env=ours | settings, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (3, "")
    last = json.loads(done.stderr.splitlines()[-1])
    assert (last["message"], last["level"]) == ("stopped", "error")
    assert "absent" in last["reason"]
