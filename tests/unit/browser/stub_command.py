"""An installation whose bin/zodbrepl only notes how it was called: nothing begins by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import situations

PROGRAM = """\
#!/bin/sh
# Notes its arguments and the actor; then waits until it may end, and how.
python3 -c 'import json, os, sys; print(json.dumps([os.environ.get("ZODBREPL_ACTOR"),
sys.argv[1:]]))' "$@" >> {calls}
while [ -e {wait} ]; do sleep 0.05; done
echo "done as told"
exit $(cat {code} 2>/dev/null || echo 0)
"""


class Stub:
    """The stub of one test.

    Attributes:
        home: folder of the installation.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "installation"
        (self.home / "bin").mkdir(parents=True)
        self._calls, self._wait = folder / "calls.jsonl", folder / "wait"
        self._code = folder / "code"
        program = self.home / "bin" / "zodbrepl"
        program.write_text(PROGRAM.format(calls=self._calls, wait=self._wait, code=self._code))
        program.chmod(0o755)

    def hold(self) -> None:
        """Have every call wait until ``let_go``."""
        self._wait.touch()

    def let_go(self, code: int = 0) -> None:
        """Have those that wait end with an exit code, and all later ones at once."""
        self._code.write_text(str(code))
        self._wait.unlink(missing_ok=True)

    @property
    def calls(self) -> list[list[Any]]:
        """Of each call the actor and the arguments."""
        if not self._calls.exists():
            return []
        return [json.loads(line) for line in self._calls.read_text().splitlines()]


def install(folder: Path, monkeypatch: Any) -> Stub:
    """A stub as the home of the pages that are made from now on."""
    stub = Stub(folder)
    monkeypatch.setattr(situations, "HOME", stub.home)
    return stub
