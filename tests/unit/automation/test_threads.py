"""A thread that ends with an error ends the program, so that supervisor starts it again."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """\
import time
from indico_zodbrepl.automation.threads import thread

def broken():
    raise KeyError("what nobody expects")

def whole():
    pass

thread("whole", whole).start()
time.sleep(0.1)
print("goes on", flush=True)
thread("renewal", broken).start()
time.sleep(60)
"""


def test_an_error_that_no_thread_expects_ends_the_program() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 1
    assert "goes on" in ended.stdout
    assert "the program ends: an error in its thread 'renewal'" in ended.stdout
    assert "KeyError: 'what nobody expects'" in ended.stderr
