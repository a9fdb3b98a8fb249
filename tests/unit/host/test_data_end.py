"""The end of a Data.fs is read without the data plane where that is complete."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import data_end, datafs
from indico_zodbrepl.host.data_end import DataEnd
from indico_zodbrepl.host.datafs_answers import Last

MAGIC = b"FS21"
NOWHERE = Installation(Path("/nowhere"))


def transaction(number: int, status: bytes = b" ", data: bytes = b"") -> bytes:
    length = 23 + len(data)
    head = struct.pack(">QQc3H", number, length, status, 0, 0, 0)
    return head + data + struct.pack(">Q", length)


def record(begin: int) -> bytes:
    """Return a record of the transaction that begins at a position."""
    data = b"x" * 1000
    return struct.pack(">8s8sQQHQ", b"o" * 8, b"t" * 8, 0, begin, 0, len(data)) + data


@pytest.mark.parametrize(
    ("content", "last"),
    [
        (MAGIC, 0),
        (b"", 0),
        (MAGIC + transaction(5), 5),
        (MAGIC + transaction(5) + transaction(9, b"p", record(35)), 9),
        (MAGIC + transaction(5) + transaction(9, b"u"), 9),
    ],
)
def test_a_complete_end_is_read_directly(tmp_path: Path, content: bytes, last: int) -> None:
    file = tmp_path / "Data.fs"
    file.write_bytes(content)
    assert DataEnd(last) == data_end.read(NOWHERE, file)


def test_no_file_holds_no_transaction(tmp_path: Path) -> None:
    found = data_end.read(NOWHERE, tmp_path / "Data.fs")
    assert found is not None
    assert found.is_empty


@pytest.mark.parametrize(
    "content",
    [
        MAGIC + transaction(5) + transaction(9)[:-1],
        MAGIC + transaction(5) + transaction(9, b"c"),
        MAGIC + transaction(5) + transaction(9, data=record(36)),
        MAGIC + transaction(5) + transaction(9, data=b"no record"),
        MAGIC + transaction(5) + b"garbage",
        MAGIC + b"x",
    ],
)
def test_any_other_end_is_left_to_the_data_plane_once(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def last(_installation: Installation, file: Path, _seconds: float) -> Last:
        asked.append(file)
        return Last("0000000000000005", None, 40, 41)

    monkeypatch.setattr(datafs, "last", last)
    file = tmp_path / "Data.fs"
    file.write_bytes(content)
    assert [DataEnd(5)] * 2 == [data_end.read(NOWHERE, file) for _time in range(2)]
    assert [file] == asked


@pytest.mark.parametrize(
    ("code", "expected"),
    [(ExitCode.REFUSED, DataEnd(None, "damaged at 40")), (ExitCode.TIMED_OUT, None)],
)
def test_damage_is_reported_and_a_hung_disk_is_not_taken_for_it(
    tmp_path: Path, code: ExitCode, expected: DataEnd | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last(*_arguments: object) -> Last:
        raise OperatorError("the end of a data file can't be read", "damaged at 40", exit_code=code)

    monkeypatch.setattr(datafs, "last", last)
    file = tmp_path / "Data.fs"
    file.write_bytes(MAGIC + b"garbage" * 9)
    assert expected == data_end.read(NOWHERE, file)


def test_a_program_that_was_too_slow_once_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that was killed would never count again as proof of what was acknowledged."""
    file = tmp_path / "Data.fs"
    file.write_bytes(MAGIC + transaction(5) + transaction(9)[:-1])
    answers = [OperatorError("no answer in time", exit_code=ExitCode.TIMED_OUT), None]

    def last(*_: object) -> Last:
        error = answers.pop(0)
        if error is not None:
            raise error
        return Last(f"{5:016x}", None, 40, 41)

    monkeypatch.setattr(datafs, "last", last)
    assert data_end.read(NOWHERE, file) is None
    assert DataEnd(5) == data_end.read(NOWHERE, file)
    assert DataEnd(5) == data_end.read(NOWHERE, file)
