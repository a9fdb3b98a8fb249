"""Uploaded files of a real cluster with Indico are moved into the database and back, and verified.

Indico's own calls upload them, with ``files archive`` first.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from clusters import PATIENCE, ClusterUnderTest, MakeCluster, wait_until

from indico_zodbrepl.cluster.layout import Layout, blobs
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import lifecycle

UPLOADS = Path(__file__).parents[1] / "dataplane"
FILES = 9  # that upload_files.py makes


def with_archive(under_test: ClusterUnderTest) -> ClusterUnderTest:
    """Let new files go into the archive, and start without Indico's processes."""
    under_test.engine = (*under_test.engine, "files archive")
    under_test.write()
    if under_test.backend == "filestorage":
        lines = under_test.path.read_text().splitlines()
        under_test.path.write_text("\n".join(each for each in lines if "storage-port" not in each))
    lifecycle.up_storage(under_test.cluster, under_test.installation, lambda _: None)
    under_test.begin_indico()
    python(under_test, "make_events.py")
    python(under_test, "upload_files.py", "make")
    return under_test


def python(under_test: ClusterUnderTest, script: str, *arguments: str) -> str:
    conf = Layout(under_test.cluster).indico_conf(under_test.cluster.indico[0])
    return subprocess.run(
        [under_test.installation.python27, UPLOADS / script, *arguments],
        env=under_test.installation.environment27(INDICO_CONF=str(conf)),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    ).stdout


def uploaded(under_test: ClusterUnderTest) -> Mapping[str, str]:
    """Return the content of each file, by name, as Indico reads it."""
    found: dict[str, str] = json.loads(python(under_test, "upload_files.py", "show"))
    return found


def archive(under_test: ClusterUnderTest) -> Path:
    return Layout(under_test.cluster).archive


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[ClusterUnderTest]:
    under_test = ClusterUnderTest(tmp_path_factory.mktemp("files"), home, indico=("one",))
    try:
        yield with_archive(under_test)
    finally:
        under_test.close()


def done(under_test: ClusterUnderTest, *arguments: str) -> str:
    result = under_test.cli("files", *arguments)
    assert (0, "") == (result.returncode, result.stderr), result.stdout + result.stderr
    return result.stdout


def test_files_are_imported_verified_on_each_node_and_exported(shared: ClusterUnderTest) -> None:
    before = uploaded(shared)
    assert len(before) == FILES
    kept = archive(shared).with_name("kept")
    (archive(shared) / "left.pdf").write_text("nothing refers to it")

    said = done(shared, "import", "--dry-run")
    assert f"in the archive, {archive(shared)}: {FILES} files" in said
    assert "in the archive, without an entry: 1 file, 20 bytes\n  left.pdf\n" in said
    assert "room of node a, node b: " in said
    assert "nothing was changed" in said

    said = done(shared, "import", "--reason", "to be safe")
    assert f"imported and verified: {FILES} files" in said
    archive(shared).rename(kept)
    assert uploaded(shared) == before
    b = shared.cluster.nodes[1]
    wait_until(lambda: done(shared, "verify", "--node", "b").count("all files are there") == 1, "b")
    said = done(shared, "verify")
    assert "node a: all files are there and right\n" in said
    assert "node b: all files are there and right\n" in said

    blob = next(blobs(b).rglob("*.blob"))
    blob.unlink()
    result = shared.cli("files", "verify")
    assert result.returncode == ExitCode.REFUSED
    assert "node a: all files are there and right\n" in result.stdout
    assert "node b: 1 file missing or different\n  event " in result.stdout
    assert "its content is missing" in result.stdout

    archive(shared).mkdir()
    said = done(shared, "export", "--to", str(shared.folder / "copy"))
    assert f"copied and verified: {FILES} files" in said
    said = done(shared, "export")
    assert f"exported and verified: {FILES} files" in said
    assert uploaded(shared) == before
    assert contents(archive(shared)) == contents(shared.folder / "copy")

    journal = shared.cli("journal").stdout
    assert "files-import" in journal
    assert "files-export" in journal
    shutil.rmtree(kept)


def contents(folder: Path) -> Mapping[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_second_import_is_refused_while_one_runs(shared: ClusterUnderTest) -> None:
    large = next(path for path in archive(shared).rglob("*.pdf") if path.parent != archive(shared))
    before = large.read_bytes()
    with large.open("r+b") as file:
        file.truncate(1 << 30)
    first = subprocess.Popen(
        [shared.home / "bin/zodbrepl", "-c", shared.path, "files", "import"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert first.stdout is not None
        for line in first.stdout:
            if " s  imported " in line:
                break
        second = shared.cli("files", "import")
        assert second.returncode == ExitCode.REFUSED
        assert "another operation is running" in second.stderr
        first.send_signal(signal.SIGINT)
        _, error = first.communicate(timeout=PATIENCE)
        assert first.returncode == ExitCode.INTERRUPTED
        assert "files import (continues)" in error
    finally:
        first.kill()
        large.write_bytes(before)
    done(shared, "import")
    done(shared, "verify")


def test_a_folder_without_any_of_the_files_is_refused(shared: ClusterUnderTest) -> None:
    done(shared, "export")
    empty = shared.folder / "empty"
    empty.mkdir(exist_ok=True)
    result = shared.cli("files", "import", "--from", str(empty))
    assert result.returncode == ExitCode.REFUSED
    assert f"DETAIL: none of {FILES} files is in {empty}" in result.stderr
    result = shared.cli("files", "import", "--from", str(empty / "none"))
    assert result.returncode == ExitCode.BAD_CONFIG


def test_a_node_that_does_not_run_is_named(shared: ClusterUnderTest) -> None:
    shared.stop("node-b")
    result = shared.cli("files", "verify")
    assert result.returncode == ExitCode.NOT_RUNNING
    assert "node a: all files are there and right\n" in result.stdout
    assert "node b: not verified: " in result.stdout


def test_a_filestorage_in_use_is_refused(make_cluster: MakeCluster) -> None:
    under_test = make_cluster({"a": ("primary", None)}, ("one",))
    under_test.backend = "filestorage"
    with_archive(under_test)
    before = uploaded(under_test)
    lifecycle.up_serving(under_test.cluster, under_test.installation)
    wait_until(lambda: "open" in under_test.cli("files", "import").stderr, "Indico has it open")
    result = under_test.cli("files", "import")
    assert result.returncode == ExitCode.REFUSED
    under_test.down()
    done(under_test, "import")
    assert "node a: all files are there and right\n" in done(under_test, "verify")
    assert uploaded(under_test) == before
