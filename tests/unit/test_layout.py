"""What runs on which interpreter, who may import whom, and that the tools are content with it."""

from __future__ import annotations

import ast
import functools
import graphlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

import indico_zodbrepl
from indico_zodbrepl import MAY_IMPORT, PYTHON3, PYTHON27, RUNS_ON

SOURCE = Path(indico_zodbrepl.__file__).parent
HOME = SOURCE.parent.parent
INSTALLED = Path(os.environ.get("ZODBREPL_HOME") or HOME)
INTERPRETERS = {PYTHON27: str(INSTALLED / "parts/python27/bin/python"), PYTHON3: sys.executable}
# What is outside of the package and runs on Python 2.7; tests not named are Python 3's.
OUTSIDE_ON_27 = (
    "bulkloader",
    "tests/dataplane",
    "tests/bulkloader",
    "tests/patches",
    "tests/scenarios/python27",
    "tests/base/python27",
    "tests/chaos/python27",
)
SUITES = sorted(path.name for path in (HOME / "tests").iterdir() if path.is_dir())
# The loader is part of the data plane: it works inside Indico and shares its preparations.
LOADER_MAY_IMPORT = {"dataplane"}

# Runs on both interpreters: the modules that each file imports, or the error that it has.
IMPORTS = r"""
import ast, json, sys
found = {}
for path in sys.argv[1:]:
    with open(path, 'rb') as source:
        tree = compile(source.read(), path, 'exec', ast.PyCF_ONLY_AST, True)
    compile(tree, path, 'exec')
    names = found[path] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.extend([0, alias.name] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ''
            names.append([node.level, base])
            names.extend([node.level, (base + '.' + alias.name).strip('.')] for alias in node.names)
json.dump(found, sys.stdout)
"""


def python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def parts_of_the_package() -> dict[str, list[Path]]:
    """Each sub-package or top-level module, and its files."""
    parts = {path.stem: [path] for path in SOURCE.glob("*.py")}
    parts |= {path.name: python_files(path) for path in SOURCE.iterdir() if python_files(path)}
    return {name: files for name, files in parts.items() if name != "__pycache__"}


def imports(files: Iterable[Path], interpreter: str) -> dict[str, list[tuple[int, str]]]:
    """Compile files by an interpreter; (level, module) of everything that each imports."""
    command = [INTERPRETERS[interpreter], "-c", IMPORTS, *map(str, files)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return {path: [(level, name) for level, name in names]
            for path, names in json.loads(answer.stdout).items()}  # fmt: skip


def imported_parts(path: Path, found: Iterable[tuple[int, str]]) -> set[str]:
    """The parts of our package among what a file imports."""
    parts = set()
    package = ("indico_zodbrepl", *path.relative_to(SOURCE).parent.parts)
    for level, name in found:
        base = package[: len(package) - level + 1] if level else ()
        full = [*base, *name.split(".")]
        if full[0] == "indico_zodbrepl" and len(full) > 1 and full[1] in RUNS_ON:
            parts.add(full[1])
    return parts


def test_each_part_of_the_package_is_classified_and_each_classified_part_exists() -> None:
    assert set(RUNS_ON) == set(parts_of_the_package())
    assert set(MAY_IMPORT) == set(RUNS_ON) - {"__init__"}


@pytest.mark.parametrize("part", sorted(RUNS_ON))
def test_a_part_compiles_on_its_interpreters_and_imports_only_what_it_may(part: str) -> None:
    files = parts_of_the_package()[part]
    for interpreter in RUNS_ON[part]:
        for name, found in imports(files, interpreter).items():
            used = imported_parts(Path(name), found) - {part}
            assert used <= set(MAY_IMPORT.get(part, ())), name


@pytest.mark.parametrize("folder", OUTSIDE_ON_27)
def test_python_27_code_outside_of_the_package_compiles(folder: str) -> None:
    for name, found in imports(python_files(HOME / folder), PYTHON27).items():
        ours = {module.split(".")[1] for _, module in found
                if module.startswith("indico_zodbrepl.")}  # fmt: skip
        allowed = LOADER_MAY_IMPORT if folder == "bulkloader" else {"dataplane"}
        assert ours <= allowed, name


@pytest.mark.parametrize("folder", ["tests/unit", "tests/integration"])
def test_tests_of_the_control_plane_do_not_import_the_data_plane(folder: str) -> None:
    for name, found in imports(python_files(HOME / folder), PYTHON3).items():
        assert not any(module.startswith("indico_zodbrepl.dataplane") for _, module in found), name


@pytest.mark.parametrize("suite", SUITES)
def test_no_two_test_modules_of_a_suite_have_the_same_name(suite: str) -> None:
    """pytest would import only one of them, and collect nothing."""
    names = Counter(path.name for path in (HOME / "tests" / suite).rglob("test_*.py"))
    assert [] == [name for name, count in names.items() if count > 1]


def test_an_import_in_the_wrong_direction_is_found(tmp_path: Path) -> None:
    """Each way to write an import is seen; the tests above would fail by it."""
    path = tmp_path / "wrong.py"
    path.write_text(
        "import indico_zodbrepl.admin\nfrom indico_zodbrepl import demo\n"
        "from .. import cli\nfrom ..dataplane.server import main\nfrom . import records\n"
    )
    found = imports([path], PYTHON3)[str(path)]
    expected = {"admin", "demo", "cli", "dataplane", "cluster"}
    assert expected == imported_parts(SOURCE / "cluster/wrong.py", found)


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported_at_start(path: Path, modules: Collection[str]) -> set[str]:
    """Return the modules of ours that a file imports when it is imported itself."""
    found = set()
    for node in tree_of(path).body:
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        found |= names & set(modules) or {node.module} & set(modules)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    """A circle works or fails depending on which of its modules is imported first."""
    modules = {
        ".".join(("indico_zodbrepl", *path.relative_to(SOURCE).with_suffix("").parts)): path
        for path in python_files(SOURCE)
        if path.name != "__init__.py"
    }
    graph = {name: imported_at_start(path, modules) for name, path in modules.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_bootstrap_is_readable_for_any_python_3() -> None:
    """So that an old one can say that it is too old."""
    ast.parse((HOME / "bootstrap").read_text(), feature_version=(3, 4))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["bin/ruff", "check"], id="ruff"),
        pytest.param(["bin/mypy"], marks=pytest.mark.exhaustive, id="mypy --strict"),
    ],
)
def test_a_checker_finds_nothing_in_the_python_3_code(command: list[str]) -> None:
    """Which files it reads, and each exception with its reason, is in pyproject.toml."""
    program, *arguments = command
    answer = subprocess.run(
        [INSTALLED / program, *arguments], cwd=HOME, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


# Files outside of backends/ that may ask which backend a cluster has, and why.
MAY_ASK_THE_BACKEND = {
    "cluster/backend_rules.py": "below backends: says which options a backend's section has",
    "cluster/validation.py": "below backends: says how many workers a database server bears",
    "bench": "a benchmark compares the backends: it makes a site of each",
}


def questions_of_kind(tree: ast.AST) -> list[int]:
    """Return the lines that compare a backend's name or family, or the type of its settings."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            names = {side.attr for side in sides if isinstance(side, ast.Attribute)}
            asked = {"backend", "family"} & names
            literal = any(isinstance(side, ast.Constant | ast.Tuple | ast.Set) for side in sides)
            if asked and (literal or "family" in asked):
                found.append(node.lineno)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            kinds = {getattr(each, "id", "") for each in ast.walk(node.args[1])}
            if any(kind.endswith(("Settings", "Servers")) for kind in kinds):
                found.append(node.lineno)
    return found


def test_only_backends_ask_which_backend_a_cluster_has() -> None:
    """Everybody else asks for what is needed: ``IBackend``, ``can``, or a table by family."""
    asking = {}
    for path in python_files(SOURCE):
        part = path.relative_to(SOURCE)
        exempt = any(part.is_relative_to(each) for each in MAY_ASK_THE_BACKEND)
        if part.parts[0] in ("backends", "dataplane") or exempt:
            continue
        lines = questions_of_kind(tree_of(path))
        if lines:
            asking[str(part)] = lines
    assert asking == {}


@pytest.mark.parametrize(
    "question",
    [
        "if cluster.backend == 'zrs': pass",
        "x = cluster.backend in ('zeo', 'zrs')",
        "x = backend_of(cluster).family is Family.NATIVE",
        "x = isinstance(cluster.settings, NeoSettings)",
        "x = isinstance(backend, NativeServers)",
    ],
)
def test_a_question_of_the_kind_of_backend_is_found(question: str) -> None:
    assert [1] == questions_of_kind(ast.parse(question))


# Where a program may sleep besides probing/waiting.py, and why it is no wait for a condition.
MAY_SLEEP = {
    "bench/suites/backup.py": "the windows that are measured",
    "bench/suites/http_generator.py": "the schedule of the requests, in asyncio",
    "etcd/transport.py": "the pause before members that refuse connections are tried again",
    "cli/status_view.py": "the pace of a view that is repeated until Ctrl-C",
    "host/remote": "the lines of an answer that lasts, in asyncio",
    "host/lease_guard.py": "imports nothing of the package",
    "host/receiving.py": "the pause before a stream that broke goes on",
    "host/run.py": "supervisord counts a program as started after a fixed time",
    "monitord/notifiers.py": "pauses that grow from attempt to attempt",
}
# Where threads are made besides probing/race.py, and why a race does not fit.
MAY_MAKE_THREADS = {
    "admin/jobs.py": "one that waits for each command that the page has started",
    "automation": "the renewal, which nothing may delay, and what it watches meanwhile",
    "admin/surveys.py": "a pool of a few workers for as long as the page runs",
    "bench/suites/files.py": "users that upload or download, and what watches the lag meanwhile",
    "bench/suites/http_trials.py": "clients that load Indico from a fixed number of threads",
    "host/part_file.py": "writing and syncing a copy while its next part arrives",
    "host/remote": "the calls of an agent, and what it does unasked",
    "monitor/watcher.py": "the loop of the monitor",
    "monitord/loop.py": "the end of a file on a disk that may hang, when the monitor stops",
    "monitord/notifiers.py": "one for each hook",
    "monitord/program.py": "the server of metrics",
    "monitord/verifier.py": "comparisons that take minutes, one at a time",
    "operations/step_time.py": "a step, which returns or raises one thing",
    "setup": "imports nothing of the package",
}
THREADS = {"Thread", "ThreadPoolExecutor"}


def calls(tree: ast.AST, names: Collection[str]) -> list[int]:
    """Return the lines that call a function of one of these names, or an attribute."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (getattr(node.func, "attr", "") or getattr(node.func, "id", "")) in names
    ]


@pytest.mark.parametrize(
    ("names", "mechanism", "exceptions"),
    [
        ({"sleep"}, "probing/waiting.py", MAY_SLEEP),
        (THREADS, "probing/race.py", MAY_MAKE_THREADS),
    ],
    ids=["wait", "fan out"],
)
def test_there_is_one_way_to_wait_and_one_to_fan_out(
    names: Collection[str], mechanism: str, exceptions: dict[str, str]
) -> None:
    found = {
        str(part)
        for part in (path.relative_to(SOURCE) for path in python_files(SOURCE))
        if part.parts[0] != "dataplane" and calls(ast.parse((SOURCE / part).read_text()), names)
    } - {mechanism}
    used = {next((each for each in exceptions if Path(part).is_relative_to(each)), part)
            for part in found}  # fmt: skip
    assert used == set(exceptions)
