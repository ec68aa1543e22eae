"""The layout of the tree: sizes of modules and folders, no circles, and no files that shadow others."""

import ast
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

THIS = Path(__file__)
ROOT = THIS.parents[3]
PACKAGES = (ROOT / "catalog" / "formulary_catalog", ROOT / "operator" / "formulary_operator")
MIGRATIONS = PACKAGES[0] / "store" / "migrations" / "versions"
WIDEST_FOLDER = 15
SHORTEST, LONGEST = 40, 400
SHORTER = {
    "formulary_catalog/store/embedded/template.py": "a program of the Dockerfile, run once",
    "formulary_catalog/edges/cli/audit/commands.py": "the group alone: its commands have a module each",
    "formulary_catalog/edges/cli/cluster/console.py": "one command; what it shares with the plugin is beside it",
    "formulary_catalog/domain/canonical_json.py": "every hash and signature is made of its one function",
    "formulary_catalog/domain/knowledge/ranking.py": "the one rule that orders documents",
    "formulary_catalog/domain/patterns.py": "models and their problems share it",
    "formulary_catalog/domain/waiting_room.py": "four services of different subjects share it",
    "formulary_catalog/embedding/known_problems.py": "reads a file of its own, with the model that made it",
    "formulary_catalog/operations/table.py": "the list of all subjects, which MCP and REST read",
    "formulary_catalog/edges/calls/caller.py": "the variable of a call that all edges share",
    "formulary_catalog/store/database/webhook_token.py": "one row that replicas of the operator share",
    "formulary_catalog/store/ended_sessions.py": "one row of a session that is over; the console alone asks",
    "formulary_catalog/store/migrations/env.py": "the entry point that Alembic asks for",
    "formulary_operator/access/identity.py": "a type that checks of callers and of runs share",
    "formulary_operator/kube/patching.py": "a standard's algorithm (RFC 7386), pure",
}
"""Modules of fewer lines than `SHORTEST`, each with the reason why it is one."""


def modules() -> Iterator[Path]:
    """The modules of the product; migrations are as long as they have to be."""
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            if path.name != "__init__.py" and path.parent != MIGRATIONS:
                yield path


@cache
def imports() -> Mapping[str, set[str]]:
    """Which modules each module imports, wherever in it."""
    graph = grimp.build_graph(*(package.name for package in PACKAGES), cache_dir=None)
    return {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}


def folders_of(layer: str) -> Mapping[str, set[str]]:
    """Which parts of a layer each of its parts imports; a part is a folder, or a module beside them."""
    beginning = f"formulary_catalog.{layer}."
    found: dict[str, set[str]] = defaultdict(set)
    for module, imported in imports().items():
        part = module.removeprefix(beginning).partition(".")[0]
        others = {each.removeprefix(beginning).partition(".")[0] for each in imported if each.startswith(beginning)}
        if module.startswith(beginning):
            found[part] |= others - {part}
    return found


def test_nothing_shadows_the_operator_module_of_the_standard_library() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_tests_are_no_packages_and_their_names_are_unique() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", ["unit", "property"])
def test_folders_of_tests_are_those_of_the_packages(kind: str) -> None:
    catalog, operator = PACKAGES
    folders = {path.parent.relative_to(ROOT / "tests" / kind) for path in (ROOT / "tests" / kind).rglob("test_*.py")}
    tested = {
        operator.joinpath(*folder.parts[1:]) if folder.parts[:1] == ("operator",) else catalog / folder
        for folder in folders
        if folder.parts != ("project",)
    }
    assert len(tested) > 10
    assert [path.relative_to(ROOT).as_posix() for path in sorted(tested) if not path.is_dir()] == []


def test_what_make_unit_runs_needs_no_database() -> None:
    (command,) = re.findall(r"^unit:.*\n\t.*pytest -q (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    files = [path for folder in command.split() for path in (ROOT / folder).rglob("test_*.py") if path != THIS]
    assert len(files) > 80
    assert [path.name for path in files if "postgres: EmbeddedPostgres" in path.read_text()] == []


def test_every_file_of_tests_is_collected() -> None:
    collected = {path for path in (ROOT / "tests").rglob("*.py") if path.name.startswith("test_")}
    with_tests = {
        path
        for path in (ROOT / "tests").rglob("*.py")
        if any(line.startswith(("def test_", "async def test_")) for line in path.read_text().splitlines())
    }
    assert with_tests <= collected


def test_no_folder_has_more_modules_than_a_reader_can_look_over() -> None:
    widths = Counter(path.parent.relative_to(ROOT).as_posix() for path in modules())
    assert {folder: width for folder, width in widths.items() if width > WIDEST_FOLDER} == {}


def test_a_module_is_as_long_as_one_job_takes() -> None:
    lengths = {"/".join(path.relative_to(ROOT).parts[1:]): len(path.read_text().splitlines()) for path in modules()}
    assert [name for name, length in lengths.items() if length > LONGEST] == []
    assert [name for name, length in lengths.items() if length < SHORTEST and name not in SHORTER] == []
    assert [name for name in SHORTER if lengths.get(name, LONGEST) >= SHORTEST] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert len(imports()) > 400
    TopologicalSorter(imports()).prepare()


@pytest.mark.parametrize("layer", ["domain", "store"])
def test_no_folders_of_a_layer_import_each_other_in_a_circle(layer: str) -> None:
    assert len(folders_of(layer)) > 5
    TopologicalSorter(folders_of(layer)).prepare()


def test_log_events_have_names_in_snake_case() -> None:
    found = [event for path in modules() for event in _log_events(path)]
    assert len(found) > 60
    assert [event for event in found if not re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", event)] == []


def _log_events(path: Path) -> Iterator[str]:
    """What the module logs: the first argument of each call of its logger, as it is written."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="_log" | "log"), attr=level), args=[event, *_]):
                if level in ("debug", "info", "warning", "error", "exception", "critical"):
                    yield str(event.value) if isinstance(event, ast.Constant) else ast.unparse(event)


@pytest.mark.parametrize("half", ["rules", "store"])
def test_what_mutants_change_and_the_tests_that_notice_are_there(half: str) -> None:
    text = (ROOT / "scripts" / "mutants.sh").read_text()
    chosen = text[text.index("if [") : text.index("\nfi\n") + 4]
    script = f'package=catalog/formulary_catalog\n{chosen}printf "%s\\n" "${{modules[@]}}" "${{tests[@]}}"'
    listed = subprocess.run(["bash", "-c", script], env={"HALF": half}, capture_output=True, text=True, check=True)
    named = listed.stdout.split()
    assert len(named) > 2
    assert [name for name in named if not (ROOT / name).is_file()] == []
