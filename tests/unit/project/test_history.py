"""What `make check` asks of commit messages."""

import subprocess
from pathlib import Path

import pytest

from support.scripts import script

WHY = "Agents that lost their header got answers without constraints."


@pytest.mark.parametrize(
    "subject",
    [
        "Refuse unknown query parameters at /mcp",
        "Search: fix empty lists in pasted text",
        "Embed sentences of a workflow",
        "a" * 72,
    ],
)
def test_an_imperative_subject_with_a_reason_is_accepted(subject: str) -> None:
    assert list(script("history").problems_of(subject, WHY)) == []


@pytest.mark.parametrize(
    ("subject", "body", "problem"),
    [
        ("Refuse " + "x" * 66, WHY, "73 characters"),
        ("Refuse unknown parameters; sort them", WHY, "semicolon"),
        ("Refuse unknown parameters.", WHY, "full stop"),
        ("Refuse unknown parameters", "\n", "no body"),
        ("Refused unknown parameters", WHY, "imperative"),
        ("Tests: refusing unknown parameters", WHY, "imperative"),
        ("What a review found: empty lists", WHY, "imperative"),
        ("A cut quotation shows that it is cut", WHY, "imperative"),
    ],
)
def test_other_messages_are_rejected_with_the_rule(subject: str, body: str, problem: str) -> None:
    (found,) = script("history").problems_of(subject, body)
    assert problem in found


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, made before there were rules."""
    _git(tmp_path, "init", "--quiet")
    _commit(tmp_path, "What was found; and more of it")
    return tmp_path


def test_commits_after_the_first_checked_one_are_checked(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    history = script("history")
    _use(repository, history, monkeypatch)
    assert history.main() == 0

    _commit(repository, "Refuse unknown parameters", WHY)
    assert history.main() == 0
    _commit(repository, "Refused; and sorted", WHY)
    assert history.main() == 1
    assert "'Refused; and sorted'" in capsys.readouterr().err


def test_a_commit_without_a_body_is_rejected(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    history = script("history")
    _use(repository, history, monkeypatch)
    _commit(repository, "Refuse unknown parameters")
    assert history.main() == 1
    assert "has no body" in capsys.readouterr().err


def test_commits_before_the_last_tag_are_not_checked(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = script("history")
    _use(repository, history, monkeypatch)
    _commit(repository, "Refused; and sorted", WHY)
    _git(repository, "tag", "v0.2.0")
    assert history.main() == 0


def test_a_clone_without_the_first_checked_commit_has_nothing_to_check(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = script("history")
    _use(repository, history, monkeypatch, first="0" * 40)
    _commit(repository, "Refused; and sorted", WHY)
    assert history.main() == 0


def _use(repository: Path, history: object, monkeypatch: pytest.MonkeyPatch, first: str = "") -> None:
    budget = repository / "budget.toml"
    budget.write_text(f'[history]\nfirst = "{first or _git(repository, "rev-parse", "HEAD")}"\n')
    monkeypatch.setattr(history, "ROOT", repository)
    monkeypatch.setattr(history, "BUDGET", budget)


def _commit(repository: Path, *paragraphs: str) -> None:
    messages = [f"--message={paragraph}" for paragraph in paragraphs]
    _git(repository, "commit", "--quiet", "--allow-empty", *messages)


def _git(repository: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", repository, *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
