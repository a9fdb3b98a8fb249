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

LINES = """\
import sys
from indico_zodbrepl.automation.log import say

sys.stdin.read()
for number in range(2000):
    say(f"line {number}")
sys.stderr.write("goes on")
"""


def without_reader(program: str, *, of_errors: bool) -> tuple[int, str]:
    """Run a program whose output nobody reads any more; return its exit code and its errors."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if of_errors else subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    _output, errors = process.communicate(timeout=30)
    return process.returncode, errors


def test_a_program_goes_on_when_supervisord_is_gone_which_reads_its_lines() -> None:
    _code, errors = without_reader(LINES, of_errors=True)
    assert errors.startswith("goes on")


def test_an_unexpected_error_ends_the_program_also_when_nobody_reads_why() -> None:
    code, _errors = without_reader(
        PROGRAM.replace('print("goes on", flush=True)', ""), of_errors=False
    )
    assert code == 1


def test_an_error_that_no_thread_expects_ends_the_program() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 1
    assert "goes on" in ended.stdout
    assert "the program ends: an error in its thread 'renewal'" in ended.stdout
    assert "KeyError: 'what nobody expects'" in ended.stderr
