"""Checks the subjects and bodies of recent commits, so that a stranger can read the history: a step of `make check`.

Looks at the commits since the last tag, or the last 50, but not at those up to `first` of `scripts/budget.toml`.
A clone without that commit, or a tree without git, has nothing to check.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGET = ROOT / "scripts" / "budget.toml"
LONGEST_SUBJECT = 72
_MOST_COMMITS = 50
_TOPIC = re.compile(r"^\w+( \w+)?: ")
# First words that no imperative has: articles, pronouns, and verbs in another form.
_STATEMENT = re.compile(r"(?i)^(an?|the|this|each|every|what|where|of|no|it|\w+ing|\w+ed)\b")
_IMPERATIVES = frozenset({"bring", "embed", "feed", "need", "ping", "proceed", "seed", "shed", "speed", "string"})


def main() -> int:
    problems = [
        f"{commit[:9]} {subject!r}: {problem}"
        for commit, subject, body in recent_commits()
        for problem in problems_of(subject, body)
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(
            "`git rebase --interactive` rewords commits that have not landed; CONTRIBUTING.md has the rules.",
            file=sys.stderr,
        )
    return 1 if problems else 0


def problems_of(subject: str, body: str) -> Iterator[str]:
    """What a commit message breaks of the rules in CONTRIBUTING.md."""
    if len(subject) > LONGEST_SUBJECT:
        yield f"{len(subject)} characters; at most {LONGEST_SUBJECT}, the body has room"
    if ";" in subject:
        yield "has a semicolon; make two commits, or name what both are"
    if subject.endswith("."):
        yield "ends with a full stop"
    words = _TOPIC.sub("", subject).split()
    if words and words[0].lower() not in _IMPERATIVES and _STATEMENT.match(words[0]):
        yield f"begins with {words[0]!r}; write an imperative, such as 'Refuse unknown query parameters'"
    if not body.strip():
        yield "has no body; say why, in a sentence at least"


def recent_commits() -> Iterator[tuple[str, str, str]]:
    """Hash, subject and body of each commit to check, newest first."""
    first = tomllib.loads(BUDGET.read_text())["history"]["first"]
    if not _git("cat-file", "-t", first):
        return
    tag = _git("describe", "--tags", "--abbrev=0")
    reachable = [f"^{first}", *([f"^{tag}"] if tag else [])]
    log = _git("log", "--no-merges", f"--max-count={_MOST_COMMITS}", "--format=%H%x1f%s%x1f%b%x1e", "HEAD", *reachable)
    for entry in log.split("\x1e"):
        if entry.strip():
            commit, subject, body = entry.strip("\n").split("\x1f")
            yield commit, subject, body


def _git(*arguments: str) -> str:
    """What git prints, empty where it fails."""
    try:
        done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip("\n") if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
