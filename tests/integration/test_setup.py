"""./bootstrap in a clone of its own without network: killed and run again, copied, refused.

The packages come from the kept folder of the clone these tests run in, which is the promise: with
it, everything can be rebuilt offline. Its files are linked where they are only read.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# `make test` begins with a bootstrap of its own clone.
pytestmark = pytest.mark.exhaustive

HOME = Path(__file__).resolve().parents[2]
# What bootstrap makes, and what is not of the project.
NOT_CLONED = {".git", ".venv", "parts", "bin", "eggs", "develop-eggs", "var", "downloads"}
NOT_CLONED |= {".installed.cfg", ".pytest_cache", ".mypy_cache", ".ruff_cache", "__pycache__"}
NOT_CLONED_SUFFIXES = (".egg-info", ".pyc")
TIME_LIMIT = 600.0
UP_TO_DATE = "setup: everything is up to date\n"


def links_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def python27() -> str:
    """The Python 2.7 that this clone was made with."""
    return str(json.loads((HOME / "parts/.made-of.json").read_text())["python27"])


def offline(home: Path) -> dict[str, str]:
    """An environment in which the index, and any cache of it, is out of reach."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    nowhere = "http://127.0.0.1:9"
    return {
        **environ,
        "HOME": str(home),
        "INDICO_PYTHON27": python27(),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": f"{nowhere}/simple",
        "PIP_RETRIES": "0",
        "PIP_CACHE_DIR": str(home / "cache"),
        "http_proxy": nowhere,
        "https_proxy": nowhere,
    }


class Clone:
    """A clone of the project, with what it takes to run its bootstrap."""

    def __init__(self, folder: Path, user_home: Path) -> None:
        self.folder = folder
        self.environ = offline(user_home)
        self.with_altered_wheel = ("", 0, "", "")

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, self.folder / "bootstrap"],
            cwd="/",
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def bootstrap(self) -> tuple[int, str, str]:
        """Run it to its end: exit code, what it wrote, and to standard error."""
        process = self.start()
        try:
            out, err = process.communicate(timeout=TIME_LIMIT)
        finally:
            end(process)
        return process.returncode, out, err

    def killed_when(self, condition: Callable[[], bool]) -> None:
        """Run it, and kill it with all it started as soon as a condition holds."""
        process = self.start()
        try:
            deadline = time.monotonic() + TIME_LIMIT
            while not condition():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            end(process)

    def output(self, command: str, *arguments: str) -> str:
        path = self.folder / "bin" / command
        answer = subprocess.run(
            [path, *arguments], cwd="/", capture_output=True, text=True, check=False,
            env={name: value for name, value in os.environ.items() if name != "ZODBREPL_HOME"},
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def check_that_it_works(self) -> None:
        """Every command starts, of this clone, and both interpreters see what they are to see."""
        for command in ("zodbrepl", "bulkload", "pytest", "supervisorctl"):
            assert "sage: " in self.output(command, "--help")
        assert self.output("mypy", "--version").startswith("mypy ")
        assert self.output("ruff", "--version").startswith("ruff ")
        show = (
            "import os, MaKaC, indico_zodbrepl, pkg_resources; pkg_resources.require('indico');"
            "print(MaKaC.__file__); print(indico_zodbrepl.__file__);"
            "print(os.environ['INDICO_CONF']);"
            "print([e.module_name for e in pkg_resources.iter_entry_points('indico.ext_types')"
            " if e.name == 'zodbrepl'])"
        )
        *paths, plugins = self.output("indico-python", "-c", show).splitlines()
        expected = ("parts/indico/MaKaC/__init__.py", "src/indico_zodbrepl/__init__.py")
        found = [path.removesuffix("c").removesuffix("o") for path in paths[:2]]
        assert [f"{self.folder}/{path}" for path in expected] == found
        assert f"{self.folder}/var/etc/one/indico.conf" == paths[2]
        assert "['indico_zodbrepl.dataplane.indico.plugin']" == plugins
        show = "import os; print(os.environ['ZODBREPL_HOME'])"
        assert f"{self.folder}\n" == self.output("control-python", "-c", show)


def end(process: subprocess.Popen[str]) -> None:
    """Kill a bootstrap's whole session, if anything of it is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone in which bootstrap was killed at several points and then run to its end."""
    folder = tmp_path_factory.mktemp("setup") / "clone"
    shutil.copytree(
        HOME, folder, symlinks=True,
        ignore=lambda _, names: [
            n for n in names if n in NOT_CLONED or n.endswith(NOT_CLONED_SUFFIXES)],
    )  # fmt: skip
    shutil.copytree(
        HOME / "downloads", folder / "downloads", copy_function=links_or_copy,
        ignore=shutil.ignore_patterns(".*"),
    )  # fmt: skip
    made = Clone(folder, tmp_path_factory.mktemp("home"))
    python27_site = folder / "parts/python27/lib/python2.7/site-packages"
    made.killed_when((folder / ".venv/lib").exists)
    made.killed_when((folder / "parts/python27/bin").exists)
    with altered_wheel(folder) as wheel:
        made.with_altered_wheel = (wheel, *made.bootstrap())
    made.killed_when((python27_site / "attr").exists)
    made.killed_when((folder / "parts/indico.new").exists)
    code, out, err = made.bootstrap()
    assert (0, "") == (code, err), out
    return made


@contextlib.contextmanager
def altered_wheel(folder: Path) -> Iterator[str]:
    """A kept wheel that we built once is another one for a while; yields its name."""
    (wheel,) = folder.glob("downloads/wheels-2.7*/ujson-*.whl")
    content = wheel.read_bytes()
    wheel.unlink()
    wheel.write_bytes(content + b"\0")
    yield wheel.name
    wheel.write_bytes(content)


@pytest.fixture
def series(clone: Clone) -> Iterator[Callable[[str], None]]:
    """Puts one more patch at the end of the clone's series; after the test it is as before."""
    folder = clone.folder / "patches/indico-1.2.2"
    before = (folder / "series").read_text()

    def add(patch: str) -> None:
        (folder / "more.patch").write_text(patch)
        (folder / "series").write_text(f"{before.rstrip()}\nmore.patch\n")

    yield add
    (folder / "series").write_text(before)
    (folder / "more.patch").unlink()


NEW_FILE = "--- /dev/null\n+++ b/added-by-the-test\n@@ -0,0 +1 @@\n+here\n"


def test_killed_at_any_point_and_run_again_it_finishes_without_network(clone: Clone) -> None:
    clone.check_that_it_works()


def test_with_nothing_to_do_it_says_so_and_changes_nothing(clone: Clone) -> None:
    stamps = [clone.folder / name / ".made-of.json" for name in ("parts", ".venv", "parts/indico")]
    before = [path.stat().st_mtime_ns for path in stamps]
    assert (0, UP_TO_DATE, "") == clone.bootstrap()
    assert before == [path.stat().st_mtime_ns for path in stamps]


def test_a_patch_that_does_not_apply_is_one_message_and_leaves_indico_as_it_was(
    clone: Clone, series: Callable[[str], None]
) -> None:
    series("--- a/requirements.txt\n+++ b/requirements.txt\n@@ -1 +1 @@\n-nonsense\n+x\n")
    code, _, err = clone.bootstrap()
    assert 1 == code
    assert "NOTICE: the patch more.patch does not apply" == err.splitlines()[0]
    assert "Traceback" not in err
    clone.check_that_it_works()


def test_a_kept_wheel_that_was_altered_is_not_installed(clone: Clone) -> None:
    """Offline it cannot be had again, so the run failed; with the right one back it succeeded."""
    wheel, code, out, err = clone.with_altered_wheel
    assert 1 == code
    assert f"Wheels were altered and are replaced: {wheel}" in out + err
    assert "NOTICE: could not find ujson==1.19 on the package index" in err
    assert "this machine reaches the index" in err


def test_a_copy_at_a_deep_path_repairs_itself_and_leaves_the_first_alone(
    clone: Clone, tmp_path: Path
) -> None:
    """The path is longer than what the kernel reads of a script's first line, and has a blank."""
    assert 0 == clone.bootstrap()[0]
    folder = tmp_path / ("deep" * 30) / "a clone"
    folder.parent.mkdir()
    shutil.copytree(clone.folder, folder, symlinks=True, ignore=shutil.ignore_patterns("downloads"))
    shutil.copytree(clone.folder / "downloads", folder / "downloads", copy_function=links_or_copy)
    copy = Clone(folder, tmp_path)
    code, out, err = copy.bootstrap()
    assert (0, "") == (code, err), out
    copy.check_that_it_works()
    assert (0, UP_TO_DATE, "") == clone.bootstrap()
    clone.check_that_it_works()


def test_a_python_27_that_is_named_and_cannot_be_used_is_refused(clone: Clone) -> None:
    clone.environ["INDICO_PYTHON27"] = sys.executable
    try:
        code, out, err = clone.bootstrap()
    finally:
        clone.environ["INDICO_PYTHON27"] = python27()
    assert (4, "") == (code, out)
    assert [
        "NOTICE: the Python 2.7 named by $INDICO_PYTHON27 cannot be used",
        f"DETAIL: {sys.executable} is Python {'.'.join(map(str, sys.version_info[:3]))}",
        "HINT: name another one, or unset INDICO_PYTHON27 to search for one",
    ] == err.splitlines()


def test_two_at_once_do_not_meddle_and_a_changed_patch_remakes_indico_alone(
    clone: Clone, series: Callable[[str], None]
) -> None:
    stamp = clone.folder / "parts/python27/.made-of.json"
    before = stamp.stat().st_mtime_ns
    series(NEW_FILE)
    both = [clone.start(), clone.start()]
    try:
        answers = [process.communicate(timeout=TIME_LIMIT) for process in both]
    finally:
        for process in both:
            end(process)
    assert [(0, ""), (0, "")] == [
        (process.returncode, err) for process, (_, err) in zip(both, answers, strict=True)
    ]
    waited = "setup: another one is running; waiting for it\n"
    assert waited + UP_TO_DATE in [out for out, _ in answers]
    assert "here\n" == (clone.folder / "parts/indico/added-by-the-test").read_text()
    assert before == stamp.stat().st_mtime_ns
