"""Files that must not exist, because of what they would shadow."""

from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_nothing_shadows_the_operator_module_of_the_standard_library() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_tests_are_no_packages_and_their_names_are_unique() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))


def test_every_file_of_tests_is_collected() -> None:
    collected = {path for path in (ROOT / "tests").rglob("*.py") if path.name.startswith("test_")}
    with_tests = {
        path
        for path in (ROOT / "tests").rglob("*.py")
        if any(line.startswith(("def test_", "async def test_")) for line in path.read_text().splitlines())
    }
    assert with_tests <= collected
