"""Steps of a workflow, run here by the command line that the container of a Job gets."""

import os
import signal
import subprocess

import pytest

from formulary_operator.engines import ENGINES
from formulary_operator.engines.plan import RunPlan
from support.plans import command, environment, plan


def run_steps(run: RunPlan) -> subprocess.CompletedProcess[str]:
    """Run the container's command here, as Kubernetes would."""
    job = ENGINES["job"].manifest(run)
    variables = environment(job)
    return subprocess.run(
        command(job, variables=variables),
        env={"PATH": os.defpath, **variables},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_steps_run_in_order_each_by_itself() -> None:
    steps = [
        {"name": "first", "command": 'cd /; LEFT=behind; echo "$NAME in $PWD"'},
        {"name": "for people", "description": "Look at the dashboard"},
        {"name": "second", "command": 'echo "${LEFT:-nothing}"; test "$PWD" != /'},
    ]
    done = run_steps(plan(values={"NAME": "checkout"}, steps=steps))
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["==> first", "checkout in /", "==> second", "nothing"]


@pytest.mark.parametrize("script", ["exit 7", "(exit 7); echo on", 'echo "$NOT_GIVEN"', "if then"])
def test_the_first_step_that_fails_ends_the_run(script: str) -> None:
    steps = [{"name": "bad", "command": script}, {"name": "next", "command": "echo reached"}]
    done = run_steps(plan(steps=steps))
    assert done.returncode != 0
    assert "reached" not in done.stdout
    assert f"step bad failed with exit code {done.returncode}" in done.stderr


def test_commands_and_values_reach_the_shell_as_they_were_written() -> None:
    hostile = "$(FORMULARY_INVOCATION_ID) $$ $$(HOME) `id` ' \" \\ ; exit 1 #"
    script = "cat <<'END'\n$(NAME) $$ ) ' %s\nEND\nprintf '%s\\n' \"$NAME\"  # ("
    done = run_steps(plan(values={"NAME": hostile}, steps=[{"name": "a 'b' %s \\n", "command": script}]))
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["==> a 'b' %s \\n", "$(NAME) $$ ) ' %s", hostile]


def test_a_run_that_is_asked_to_end_does_so_at_once() -> None:
    job = ENGINES["job"].manifest(plan(steps=[{"name": "wait", "command": "echo waiting; sleep 60"}]))
    process = subprocess.Popen(
        command(job, variables={}),
        env={"PATH": os.defpath},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert [process.stdout.readline(), process.stdout.readline()] == ["==> wait\n", "waiting\n"]
        process.terminate()
        assert process.wait(timeout=30) == 143
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
