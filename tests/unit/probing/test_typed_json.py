"""Typed values from JSON: in any thread, and nowhere else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3] / "src"

# Each round has classes that no thread has met yet. A crash ends the process with -SIGSEGV.
THREADS = """
import dataclasses, sys, threading
sys.path.insert(0, sys.argv[1])
from indico_zodbrepl.probing.typed_json import convert, decode
sys.setswitchinterval(1e-6)
for number in range(60):
    inner = dataclasses.make_dataclass(f"Inner{number}", [("x", "int | None", None)])
    fields = [(f"f{each}", "list[int] | None", None) for each in range(20)]
    outer = dataclasses.make_dataclass(f"Outer{number}", [*fields, ("inner", inner | None, None)])
    barrier = threading.Barrier(4)
    def work(which):
        barrier.wait()
        if which % 2:
            decode(b'{"f3": [1], "inner": {"x": 5}}', outer)
        else:
            convert({"f3": [1], "inner": {"x": 5}}, outer)
    threads = [threading.Thread(target=work, args=(each,)) for each in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print("survived")
"""


def test_threads_may_meet_a_class_at_the_same_moment() -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS, SOURCE], capture_output=True, text=True, check=False
    )
    assert (0, "survived\n") == (done.returncode, done.stdout), done.stderr


def test_nothing_else_decodes_by_msgspec_itself() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.glob("indico_zodbrepl/**/*.py")
        if "dataplane" not in path.parts and path.name != "typed_json.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in ("msgspec.json.decode", "msgspec.convert", "msgspec.json.Decoder")
    ]
    assert [] == found
