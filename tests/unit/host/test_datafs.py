"""Data files by the data plane's program: its real answers, as typed objects or refusals."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs
from indico_zodbrepl.host.datafs_answers import Progress, Relation

COMMITS = """
import sys
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.utils import p64, z64
storage = FileStorage(sys.argv[1])
for number in range(int(sys.argv[2])):
    meta = TransactionMetaData(u'', u'', {})
    storage.tpc_begin(meta)
    storage.store(storage.new_oid(), z64, 1000 * b'x', '', meta)
    storage.tpc_vote(meta)
    storage.tpc_finish(meta)
if len(sys.argv) > 3:
    print('open')
    sys.stdout.flush()
    sys.stdin.read()
"""


@pytest.fixture
def installation() -> Installation:
    return Installation(home_from_environment())


def commit(installation: Installation, path: Path, count: int) -> None:
    subprocess.run([installation.python27, "-c", COMMITS, path, str(count)], check=True)


@pytest.fixture
def files(installation: Installation, tmp_path: Path) -> tuple[Path, Path]:
    """A node's file with two transactions of its own, and its upstream's with one."""
    mine, upstream = tmp_path / "Data.fs", tmp_path / "upstream.fs"
    commit(installation, upstream, 3)
    shutil.copyfile(upstream, mine)
    commit(installation, mine, 2)
    commit(installation, upstream, 1)
    return mine, upstream


def test_a_diverged_file_is_compared_exported_cut_and_compared_again(
    installation: Installation, files: tuple[Path, Path], tmp_path: Path
) -> None:
    mine, upstream = files
    found = datafs.compare(installation, mine, upstream)
    assert (Relation.DIVERGED, 2, 1) == (found.relation, found.private, found.missing)
    assert not found.relation.may_follow
    assert found.common is not None
    common = found.common.tid
    assert found.common.digest == datafs.digest(installation, upstream, common)
    assert datafs.last(installation, mine).tid == found.private_last
    again = datafs.compare(installation, mine, upstream, common)
    assert (found.relation, 3) == (again.relation, again.examined)

    exported = datafs.export(installation, mine, common, tmp_path / "tail")
    assert (2, found.private_first) == (exported.transactions, exported.first)
    assert datafs.last(installation, exported.folder / "tail.fs").tid == exported.last

    size = mine.stat().st_size
    planned = datafs.truncate(installation, mine, common, tmp_path / "kept", dry_run=True)
    assert (False, size) == (planned.done, mine.stat().st_size)
    cut = datafs.truncate(installation, mine, common, tmp_path / "kept")
    assert (True, planned.offset) == (cut.done, mine.stat().st_size)
    after = datafs.compare(installation, mine, upstream)
    assert (Relation.BEHIND, 1) == (after.relation, after.missing)
    assert after.relation.may_follow


def test_a_copy_reports_its_progress(
    installation: Installation, files: tuple[Path, Path], tmp_path: Path
) -> None:
    told: list[Progress] = []
    copied = datafs.copy(installation, files[0], tmp_path / "copy.fs", told.append)

    assert files[0].read_bytes() == (tmp_path / "copy.fs").read_bytes()
    assert copied.bytes == told[-1].done == told[-1].total


def test_an_error_of_who_watches_a_copy_ends_the_copy(
    installation: Installation, files: tuple[Path, Path], tmp_path: Path
) -> None:
    def fail(progress: Progress) -> None:
        raise LookupError(progress.stage)

    with pytest.raises(LookupError, match="data"):
        datafs.copy(installation, files[0], tmp_path / "copy.fs", fail)


def test_a_missing_file_is_empty_but_has_no_last_transaction(
    installation: Installation, files: tuple[Path, Path], tmp_path: Path
) -> None:
    missing = tmp_path / "none.fs"
    found = datafs.compare(installation, missing, files[1])
    assert (Relation.EMPTY, None, 4) == (found.relation, found.common, found.missing)
    with pytest.raises(OperatorError) as caught:
        datafs.last(installation, missing)
    assert f"{missing}: No such file or directory" == caught.value.detail


def test_damage_and_a_server_that_runs_are_refusals(
    installation: Installation, files: tuple[Path, Path], tmp_path: Path
) -> None:
    mine, upstream = files
    common = datafs.last(installation, mine).tid
    assert common is not None
    with mine.open("ab") as stream:
        stream.write(b"\0" * 5000)
    with pytest.raises(OperatorError) as damaged:
        datafs.compare(installation, mine, upstream)
    with subprocess.Popen([installation.python27, "-c", COMMITS, upstream, "1", "stay"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:  # fmt: skip
        assert server.stdout is not None
        assert server.stdout.readline() == b"open\n"
        with pytest.raises(OperatorError) as in_use:
            datafs.truncate(installation, upstream, common, tmp_path / "kept")
        server.kill()

    assert [ExitCode.REFUSED] * 2 == [each.value.exit_code for each in (damaged, in_use)]
    assert "offset" in damaged.value.detail
    assert "a server has" in in_use.value.detail


def cut_off(data: bytes) -> bytes:
    return data[:-40]


def write_noise(data: bytes) -> bytes:
    return data[:-40] + b"\xa5" * 40


@pytest.mark.parametrize("damage", [cut_off, write_noise])
def test_what_comes_before_a_damaged_end_is_compared_exported_and_cut(
    installation: Installation,
    files: tuple[Path, Path],
    tmp_path: Path,
    damage: Callable[[bytes], bytes],
) -> None:
    mine, upstream = files
    whole = datafs.compare(installation, mine, upstream)
    assert whole.unreadable == 0
    assert whole.common is not None
    mine.write_bytes(damage(mine.read_bytes()))
    with pytest.raises(OperatorError, match="can't be compared"):
        datafs.compare(installation, mine, upstream)
    with pytest.raises(OperatorError, match="can't be exported"):
        datafs.export(installation, mine, whole.common.tid, tmp_path / "refused")
    found = datafs.compare(installation, mine, upstream, damaged=True)
    assert (found.relation, found.private, found.common) == (whole.relation, 1, whole.common)
    assert 0 < found.unreadable < mine.stat().st_size
    exported = datafs.export(installation, mine, whole.common.tid, tmp_path / "tail", damaged=True)
    assert exported.transactions == 1
    size = mine.stat().st_size
    datafs.truncate(installation, mine, whole.common.tid, tmp_path / "kept")
    kept = (tmp_path / "kept/cut.bin").stat().st_size
    assert size == mine.stat().st_size + kept
    assert datafs.compare(installation, mine, upstream).relation is Relation.BEHIND


def test_a_file_without_a_readable_transaction_is_empty_and_unreadable(
    installation: Installation, files: tuple[Path, Path]
) -> None:
    mine, upstream = files
    mine.write_bytes(mine.read_bytes()[:60])
    found = datafs.compare(installation, mine, upstream, damaged=True)
    assert (found.relation, found.unreadable) == (Relation.EMPTY, 56)


def test_a_program_that_takes_too_long_is_ended(
    installation: Installation, files: tuple[Path, Path]
) -> None:
    with pytest.raises(OperatorError) as caught:
        datafs.compare(installation, *files, seconds=0.001)
    assert caught.value.exit_code == ExitCode.TIMED_OUT


def test_without_python_27_the_installation_is_to_be_completed(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as caught:
        datafs.last(Installation(tmp_path), tmp_path / "Data.fs")
    assert caught.value.exit_code == ExitCode.NOT_INSTALLED


def test_a_python_path_for_another_python_does_not_reach_python27(
    installation: Installation,
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('this is for Python 3')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    assert datafs.last(installation, files[0]).tid
