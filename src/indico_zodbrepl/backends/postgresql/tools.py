"""Running PostgreSQL's programs on a node's data folder."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ...cluster import Cluster, Node
from ...errors import ExitCode, OperatorError
from . import names, programs
from .identity import Identity, identity
from .programs import Programs

# initdb, a rewind, the recovery of a killed server's data.
TOOL_SECONDS = 600.0
POLL_SECONDS = 0.1
# Standard output, as lines; a program says no more than that.
OUTPUT_LINES = 20


def of_data(cluster: Cluster, folder: Path) -> Programs:
    """The programs for data that is there; for new data any version's.  As ``programs.find``."""
    version = folder / "PG_VERSION"
    return programs.find(names.settings(cluster),
                         version.read_text("ascii").strip() if version.exists() else None)


def environment() -> dict[str, str]:
    """This process's, without what would steer PostgreSQL's programs."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("PG") and name not in ("LANG", "LANGUAGE")} | {"LC_ALL": "C"}


def run(identity: Identity, tools: Programs, program: str, folder: Path, *arguments: str,
        text: str = "", seconds: float = TOOL_SECONDS,
        stalled: Callable[[], bool] = lambda: False) -> str:
    """Run a program to its end; what it wrote to its standard output.

    Args:
        folder: the data folder; ``{data}`` in an argument is its name.
        text: for its standard input.
        stalled: asked now and then; when it says so the program is killed.

    Raises:
        OperatorError: exit 1, it failed, with its own words; exit 7, it took too long or stalled.
    """
    command = identity.command(tools, program, folder, *arguments)
    deadline = time.monotonic() + seconds
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
                          env=environment(), cwd=folder) as child:
        try:
            output, given = "", text
            while True:
                try:
                    output, _ = child.communicate(given, timeout=POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    given = ""
                    if time.monotonic() > deadline or stalled():
                        raise OperatorError(
                            f"{program} did not come to its end", f"data folder {folder}",
                            exit_code=ExitCode.TIMED_OUT) from None
        finally:
            child.kill()
    if child.returncode != 0:
        raise OperatorError(f"{program} failed with exit {child.returncode}",
                            "\n".join(output.splitlines()[-OUTPUT_LINES:]) or f"on {folder}")
    return output


def control_data(cluster: Cluster, node: Node) -> dict[str, str]:
    """What pg_controldata says of a node's data, by label.  Raises as ``run``, and OSError."""
    folder = names.data_folder(node)
    output = run(identity(), of_data(cluster, folder), "pg_controldata", folder, "{data}")
    return {label.strip(): value.strip() for label, _, value in
            (line.partition(":") for line in output.splitlines())}


def single_user(identity: Identity, tools: Programs, folder: Path, database: str,
                *statements: str) -> str:
    """Run SQL in a data folder that no server has open; it recovers from a kill first.

    Statements are one line each.  What they hold is not logged.  Returns the output; raises as
    ``run``.
    """
    return run(identity, tools, "postgres", folder, "--single", "-D", "{data}",
               "-c", "exit_on_error=on", "-c", "log_min_error_statement=panic",
               "-c", "log_checkpoints=off", database,
               text="".join(statement + "\n" for statement in statements))
