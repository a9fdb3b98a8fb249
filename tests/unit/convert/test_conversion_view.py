"""What the command convert shows."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.cli.data_view import done_lines, progress_line
from indico_zodbrepl.convert import Done, Progress

DONE = Done(
    held=0,
    copied=3,
    records=9,
    bytes=900,
    last="040d2ae4521b65bb",
    unfinished=0,
    seconds={"copy": 1.0},
    lost={"records": 0, "transactions": 0, "status": 0, "undo_pointers": 0},
    blobs=0,
    blob_bytes=0,
)


def test_progress_says_how_far_how_fast_and_how_much_longer() -> None:
    line = progress_line(Progress("copy", 1234, 5_000_000, 0.25, 10.0))
    assert (
        "copied 1,234 transactions, 5.0 MB, 25 %, 123 transactions/s, 0.5 MB/s, 30 s left" == line
    )


def test_progress_says_no_more_than_is_known() -> None:
    assert "verified 1 transaction, 0.0 MB, 100 %" == progress_line(
        Progress("verify", 1, 9, 1.0, 0.0)
    )
    assert "left" not in progress_line(Progress("copy", 1, 9, 1.0, 2.0))
    assert "2.5 h left" in progress_line(Progress("copy", 1, 9, 0.5, 9000.0))


def test_the_end_says_what_is_there_and_that_it_was_compared() -> None:
    (line,) = list(done_lines(DONE))[1:]
    assert line.startswith("The target holds 3 transactions, up to 040d2ae4521b65bb: 3 copied, 0")
    assert "All were compared with the source." in line


def test_the_end_says_how_many_uploaded_files_were_copied() -> None:
    lines = list(done_lines(dataclasses.replace(DONE, blobs=2, blob_bytes=3_000_000)))
    assert "2 uploaded files copied, 3.0 MB." in lines


def test_the_end_says_what_was_not_kept() -> None:
    def told(unfinished: int = 0, **lost: int) -> str:
        return "\n".join(
            done_lines(dataclasses.replace(DONE, unfinished=unfinished, lost={**DONE.lost, **lost}))
        )

    assert "7 old or deleted records, and 2 transactions" in told(records=7, transactions=2)
    assert "Not copied: 2 transactions" in told(transactions=2)
    assert "1 transaction" in told(status=1).splitlines()[-1]
    assert "4 records that an undo" in told(undo_pointers=4)
    assert "17 bytes" in told(unfinished=17)
