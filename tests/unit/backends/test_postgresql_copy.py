"""A copy of PostgreSQL's data is given up when its process does nothing, and only then."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from indico_zodbrepl.backends.postgresql import data

LIMIT = 1.0
PATIENCE = 60.0
WORKS = {
    "writes": "while True: open('file', 'w').write('x'); time.sleep(.01)",
    "synchronises": "f = open('file', 'w')\nwhile True: os.fsync(f); time.sleep(.01)",
}


@contextmanager
def running(program: str, folder: object) -> Iterator[int]:
    command = [sys.executable, "-c", f"import os, time\n{program}"]
    with subprocess.Popen(command, cwd=str(folder)) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize("program", WORKS.values(), ids=WORKS)
def test_a_process_that_works_is_left_alone(tmp_path: object, program: str) -> None:
    stands_still = data.standstill(LIMIT)
    with running(program, tmp_path) as pid:
        end = time.monotonic() + 3 * LIMIT
        while time.monotonic() < end:
            assert not stands_still(pid)
            time.sleep(0.05)


def test_a_process_that_waits_for_an_answer_stands_still(tmp_path: object) -> None:
    stands_still = data.standstill(LIMIT)
    with running("time.sleep(1000)", tmp_path) as pid:
        end = time.monotonic() + PATIENCE
        while not stands_still(pid):
            assert time.monotonic() < end
            time.sleep(0.05)
