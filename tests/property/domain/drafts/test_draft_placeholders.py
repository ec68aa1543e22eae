"""Placeholders of drafted commands: whatever is given for one, the shell reads it as one word."""

import os
import subprocess
import tempfile
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from formulary_catalog.domain.drafts.commands import ANGLED, with_variables
from formulary_catalog.domain.drafts.draft import manifest_of
from formulary_catalog.domain.drafts.runbooks import draft_of_markdown
from formulary_catalog.domain.entry import catalog_entry

PLAIN = st.sampled_from(["a", "b c", "'q'", '"d"', "\\'", " ", "-n ", "$(echo x)"])
COMMAND = st.lists(PLAIN | st.just("<name>"), min_size=1, max_size=6).map("".join)
HOSTILE = "x; touch pwned; $(touch pwned) `touch pwned` ' \" *"


@settings(max_examples=25, deadline=None)
@given(COMMAND)
def test_a_value_is_never_read_as_a_command(command: str) -> None:
    with_value, found = with_variables(f"printf %s {command}", notation=ANGLED)
    assert [each.name for each in found] == (["NAME"] if "<name>" in command else [])
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            ["sh", "-c", with_value],
            cwd=directory,
            env={"PATH": os.environ["PATH"], "NAME": HOSTILE},
            capture_output=True,
            text=True,
            check=False,
        )
        assert list(Path(directory).iterdir()) == []
    if "<name>" in command and done.returncode == 0:
        assert HOSTILE in done.stdout


@given(st.text(max_size=300))
def test_any_text_becomes_a_manifest_that_validates(text: str) -> None:
    document = yaml.safe_load(manifest_of(draft_of_markdown(f"# {text}\n\n## Steps\n\n- {text}\n", source="a.md")))
    assert document["spec"]["suspend"] is True
    catalog_entry(document, source="a.md", default_namespace="formulary")
