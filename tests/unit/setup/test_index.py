"""Files of a package index: chosen for Python 2.7 by pinned hash, fetched whole or not at all.

The index is a small server of this test's own, on this machine.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.setup.index import Index, IndexFile, Target
from indico_zodbrepl.setup.indico import fetch_release
from indico_zodbrepl.setup.pins import Pin
from indico_zodbrepl.setup.wheels import Wheel, WheelFolder, build_wheels, install_wheels, spread

HOME = Path(os.environ.get("ZODBREPL_HOME") or Path(__file__).parents[3])
LINUX_27 = Target((2, 7, 18), "cp27mu", ("manylinux1_x86_64", "linux_x86_64"))
SDIST = "demo-1.0.tar.gz"
WHEEL = "demo-1.0-cp27-cp27mu-manylinux1_x86_64.whl"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and does not write about it."""

    def log_message(self, *_arguments: object) -> None:
        pass


class LocalIndex:
    """A package index in a folder, with the files of one project."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "simple/demo"
        self.folder.mkdir(parents=True)
        self.hashes: dict[str, str] = {}

    def add(self, name: str, content: bytes) -> str:
        (self.folder / name).write_bytes(content)
        self.hashes[name] = hashlib.sha256(content).hexdigest()
        links = [f'<a href="{n}#sha256={digest}">{n}</a>' for n, digest in self.hashes.items()]
        page = f"<!DOCTYPE html><html><body>{' '.join(links)}</body></html>"
        (self.folder / "index.html").write_text(page)
        return self.hashes[name]

    def alter(self, name: str) -> None:
        """Change a file's content; the page still promises the old one."""
        (self.folder / name).write_bytes(b"altered")


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalIndex]:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    files = LocalIndex(tmp_path / "index")
    handler = functools.partial(QuietHandler, directory=str(tmp_path / "index"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        yield files
        server.shutdown()
        serving.join()


def pin(*hashes: str) -> Pin:
    return Pin("demo", "1.0", frozenset(hashes))


def sdist(setup: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in (("setup.py", setup), ("demo.py", "answer = 42\n")):
            member = tarfile.TarInfo(f"demo-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


GOOD_SDIST = sdist(
    "from setuptools import setup\nsetup(name='demo', version='1.0', py_modules=['demo'])\n"
)


def test_a_wheel_for_the_target_is_chosen_over_the_source_and_over_other_wheels(
    local: LocalIndex,
) -> None:
    hashes = [
        local.add(name, name.encode())
        for name in (
            SDIST,
            WHEEL,
            "demo-1.0-py3-none-any.whl",
            "demo-1.0-cp27-cp27m-manylinux1_x86_64.whl",
            "demo-1.0-cp27-cp27mu-manylinux1_aarch64.whl",
            "demo-2.0-py2-none-any.whl",
        )
    ]
    assert [WHEEL] == [file.filename for file in Index(LINUX_27).find([pin(*hashes)])]


def test_a_wheel_that_is_not_pinned_is_not_chosen(local: LocalIndex) -> None:
    source = local.add(SDIST, b"source")
    local.add(WHEEL, b"a later build")
    found = Index(LINUX_27).find([pin(source)])
    assert [(SDIST, False)] == [(file.filename, file.is_wheel) for file in found]


def test_a_release_without_a_pinned_file_is_an_error(local: LocalIndex) -> None:
    local.add(SDIST, b"source")
    with pytest.raises(OperatorError, match="could not find demo==1"):
        Index(LINUX_27).find([pin("0" * 64)])


def test_a_fetched_file_is_the_one_that_was_promised(local: LocalIndex, tmp_path: Path) -> None:
    index = Index(LINUX_27)
    found = index.find([pin(local.add(WHEEL, b"wheel"))])
    index.fetch(found, tmp_path)
    assert b"wheel" == (tmp_path / WHEEL).read_bytes()


def test_a_file_with_another_content_is_refused_and_nothing_stays(
    local: LocalIndex, tmp_path: Path
) -> None:
    target = tmp_path / "downloads"
    target.mkdir()
    index = Index(LINUX_27)
    found = index.find([pin(local.add(WHEEL, b"wheel"))])
    local.alter(WHEEL)
    with pytest.raises(OperatorError, match="does not match its pin") as refusal:
        index.fetch(found, target)
    assert hashlib.sha256(b"wheel").hexdigest() in refusal.value.detail
    assert [] == list(target.iterdir())


@pytest.mark.usefixtures("local")
def test_an_index_that_cannot_be_reached_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(OperatorError, match="could not find demo==1") as refusal:
        Index(LINUX_27).find([pin("0" * 64)])
    assert "reaches the index" in refusal.value.hint


def test_a_kept_release_is_used_without_the_index_and_an_altered_one_is_fetched_again(
    local: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    wanted = pin(local.add(SDIST, b"source"))
    kept = fetch_release(wanted, downloads)
    kept.write_bytes(b"altered")
    assert b"source" == fetch_release(wanted, downloads).read_bytes()
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert kept == fetch_release(wanted, downloads)


def test_a_source_is_built_by_python_27_recorded_and_installed_by_its_hash(
    local: LocalIndex, tmp_path: Path
) -> None:
    python = HOME / "parts/python27/bin/python"
    wanted = pin(local.add(SDIST, GOOD_SDIST))
    folder = WheelFolder(tmp_path / "wheels")
    build_wheels(python, Index(LINUX_27).find([wanted]), folder)
    wheel = folder.good([wanted])[0][wanted]
    assert "demo-1.0-py2-none-any.whl" == wheel.path.name
    wheel.path.write_bytes(wheel.path.read_bytes() + b"\0")
    with pytest.raises(OperatorError, match="does not match its pin"):
        install_wheels(python, [Wheel(wanted, wheel.path, wheel.sha256)])


def test_a_source_that_was_altered_is_not_built(local: LocalIndex, tmp_path: Path) -> None:
    """Its setup.py would leave a trace if it were run."""
    trace = tmp_path / "trace"
    wanted = pin(local.add(SDIST, GOOD_SDIST))
    found = Index(LINUX_27).find([wanted])
    (local.folder / SDIST).write_bytes(sdist(f"open({str(trace)!r}, 'w').close()\n"))
    with pytest.raises(OperatorError, match="does not match its pin"):
        build_wheels(HOME / "parts/python27/bin/python", found, WheelFolder(tmp_path / "wheels"))
    assert not trace.exists()


def test_sources_that_are_slow_to_build_do_not_wait_for_each_other() -> None:
    files = [
        IndexFile(Pin(name, "1", frozenset()), f"{name}-1.tar.gz", "", "")
        for name in ("a", "b", "reportlab", "c", "RelStorage", "d")
    ]
    groups = [[file.pin.name for file in group] for group in spread(files, 2)]
    assert [["RelStorage", "a", "c"], ["reportlab", "b", "d"]] == groups
    assert [["a"]] == [[file.pin.name for file in group] for group in spread(files[:1], 4)]
