"""What the release workflow finds in this tree: versions, notes, names and addresses that fit together."""

from pathlib import Path

import pytest

from support.scripts import script

ROOT = Path(__file__).parents[3]
IMAGE = f"registry.example/formulary@sha256:{'0a' * 32}"


def test_the_files_of_the_mcp_registry_name_one_server_in_one_version() -> None:
    release = script("release")
    name = release.json.loads(release.registry_entry())["name"]

    assert f"<!-- mcp-name: {name} -->" in (ROOT / "README.md").read_text()
    assert f"LABEL io.modelcontextprotocol.server.name={name}\n" in (ROOT / "Dockerfile").read_text()
    assert f'"registry.example/formulary:{release.version()}"'.encode() in release.registry_entry(IMAGE)


def test_this_tree_can_be_released_under_the_tag_of_its_version_and_no_other() -> None:
    release = script("release")

    assert list(release.problems_of(f"v{release.version()}")) == []
    (problem,) = release.problems_of("v9.9.9")
    assert problem.startswith("the tag is v9.9.9, and pyproject.toml has version")


def test_the_notes_of_a_release_are_its_section_of_the_changelog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = script("release")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n## 0.2.0\n\n* New.\n\n## 0.1.0\n\n* First.\n")

    assert (release.notes("0.2.0"), release.notes("0.1.0")) == ("* New.", "* First.")
    with pytest.raises(release.NotReady, match=r"says nothing under '## 0\.3\.0'"):
        release.notes("0.3.0")


def test_ci_runs_what_a_newcomer_runs() -> None:
    assert "- run: bash .ci/run\n" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert "make test\n" in (ROOT / ".ci" / "run").read_text()
