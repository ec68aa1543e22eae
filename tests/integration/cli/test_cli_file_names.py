"""Names of files are texts of others: whatever they hold, a terminal gets plain lines, and a program valid JSON."""

import io
import json
import os
import unicodedata
from pathlib import Path

import pytest

from formulary_catalog.loading.documents import rejected
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.runtime.display import Display
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.commands import formulary
from support.databases import migrated_database
from support.hostile import HOSTILE

_LONGEST = 200
NAMES = [
    *(os.fsencode(text.replace("/", "\u2215"))[:_LONGEST].decode(errors="ignore") for text in HOSTILE),
    "a\nok       forged.yaml  (1 workflow)",
    "\x9b31mred\x85",
    os.fsdecode(b"\xff\xfe"),
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a broken file of each name."""
    made = tmp_path_factory.mktemp("names")
    for number, name in enumerate(NAMES):
        (made / f"{number:02}{name}.yaml").write_text("kind: [", encoding="utf-8")
        (made / f"{number:02}{name}.md").write_bytes(b"# \xff\xff")
    return made


def harmful(text: str) -> set[str]:
    """What a terminal would act on, but for the ends of lines."""
    return {each for each in text if each != "\n" and unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


async def test_files_of_any_name_are_validated_in_plain_lines(directory: Path) -> None:
    checked = await formulary("validate", str(directory))
    assert (checked.code, harmful(checked.out), harmful(checked.err)) == (1, set(), set())
    begins = [line.split()[0] for line in checked.out.splitlines() if line and not line.startswith(" ")]
    assert begins == ["invalid"] * len(NAMES) + ["0"]


async def test_files_of_any_name_are_told_to_programs(directory: Path) -> None:
    checked = await formulary("validate", str(directory), "--json")
    files = [each["file"] for each in json.loads(checked.out)["files"]]
    assert (checked.code, harmful(checked.out)) == (1, set())
    assert files == sorted(str(directory / f"{number:02}{name}.yaml") for number, name in enumerate(NAMES))


async def test_rules_and_runbooks_of_any_name_are_refused_in_plain_lines(
    directory: Path, postgres: EmbeddedPostgres
) -> None:
    covered = await formulary("coverage", "--from", str(directory))
    assert (covered.code, harmful(covered.out + covered.err)) == (2, set())
    async with migrated_database(postgres) as dsn:
        loaded = await formulary("runbooks", "load", str(directory), FORMULARY_DATABASE_URL=dsn)
    assert (loaded.code, harmful(loaded.out + loaded.err)) == (1, set())
    assert loaded.err.count("rejected: ") == len(NAMES)


def test_a_server_that_starts_names_them_in_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr("sys.stderr", printed)
    Display().report(LoadReport(rejections=[rejected("is broken", file=f"{name}.yaml") for name in NAMES]))
    assert harmful(printed.getvalue()) == set()
    lines = [line.partition(":")[0] for line in printed.getvalue().splitlines()]
    assert lines == ["rejected"] * len(NAMES) + ["not served"]
