"""What uploaded files cost an operator: they are imported, verified, cloned, packed and backed up.

    bin/control-python tests/integration/files_figures.py --files 10000 --size 1MiB --folder /srv/x

It is no test.  A ZRS pair and an Indico run on this machine, with the files in the archive first.
About five times their size is written to FOLDER, and three times is there at once; all is removed
at the end.  Prints the output of each command, and a table.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from clusters import ClusterUnderTest, wait_until

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import lifecycle
from indico_zodbrepl.probing.probes import probe_server

HOME = Path(__file__).resolve().parents[2]
OF_AN_EVENT = 50
SECONDS = 7200.0


class Figures:
    """A cluster in a folder, and the seconds that each step took."""

    def __init__(self, folder: Path, files: int, size: str) -> None:
        self._files, self._size = files, size
        self._folder = folder
        self._found: list[tuple[str, float, str]] = []
        self._made = ClusterUnderTest(folder, HOME, indico=("one",))
        self._set_files("archive")

    def close(self) -> None:
        self._made.close()

    def measure(self) -> None:
        made = self._made
        lifecycle.up_serving(made.cluster, made.installation)
        made.begin_indico()
        events = max(1, self._files // OF_AN_EVENT)
        with self._timed("made by the bulk loader"):
            self._bulkload("--conferences", str(events), "--contributions", "5", "--files",
                           str(self._files // events), "--file-size", self._size)  # fmt: skip
        self._zodbrepl("files", "import", "--dry-run")
        self._set_files("blobs")
        made.up()
        made.cli("restart", "one")
        with self._timed("imported: files import"):
            self._zodbrepl("files", "import")
        with self._timed("lag of the secondary after it"):
            self._wait_for_secondary()
        with self._timed("verified on both nodes: files verify"):
            self._zodbrepl("files", "verify")
        shutil.rmtree(Layout(made.cluster).archive)
        Layout(made.cluster).archive.mkdir()
        with self._timed("cloned: clone b"):
            self._zodbrepl("clone", "b", "--reason", "figures")
        for each in self._folder.glob("var/node/b[!/]*"):
            shutil.rmtree(each)  # the data from before the clone
        with self._timed("packed, both nodes: pack --days 0"):
            self._zodbrepl("pack", "--days", "0")
        backups = self._folder / "backups"
        with self._timed("backed up: backup --full"):
            self._zodbrepl("backup", "--to", str(backups), "--full")
        self._bulkload("--conferences", "1", "--contributions", "0", "--files", "1", "--file-size",
                       self._size, "--add")  # fmt: skip
        self._wait_for_secondary()
        with self._timed("backed up again with one more file: backup"):
            self._zodbrepl("backup", "--to", str(backups))
        shutil.rmtree(backups)
        with self._timed("moved back: files export"):
            self._zodbrepl("files", "export")

    def table(self) -> Iterator[str]:
        yield f"\n{self._files} files of {self._size}, load at the end {os.getloadavg()[0]:.1f}\n"
        yield "| step | seconds | disk of the whole folder afterwards |"
        yield "|---|---:|---:|"
        for what, seconds, used in self._found:
            yield f"| {what} | {seconds:.1f} | {used} |"

    @contextlib.contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        seconds = time.monotonic() - began
        used = subprocess.run(
            ["du", "-sh", self._folder], check=True, capture_output=True, text=True
        )
        self._found.append((what, seconds, used.stdout.split()[0]))
        print(f"=== {what}: {seconds:.1f} s", flush=True)

    def _set_files(self, where: str) -> None:
        self._made.engine = (f"files {where}",)
        self._made.write()

    def _zodbrepl(self, *arguments: str) -> None:
        command = [str(HOME / "bin/zodbrepl"), "-c", str(self._made.path), *arguments]
        print("$ bin/zodbrepl", *arguments, flush=True)
        subprocess.run(command, check=True, timeout=SECONDS)

    def _bulkload(self, *arguments: str) -> None:
        cluster = self._made.cluster
        conf = Layout(cluster).indico_conf(cluster.indico[0])
        print("$ bin/bulkload", *arguments, flush=True)
        subprocess.run(
            [HOME / "bin/bulkload", *arguments],
            check=True,
            timeout=SECONDS,
            env={**os.environ, "INDICO_CONF": str(conf)},
        )

    def _wait_for_secondary(self) -> None:
        a, b = self._made.cluster.nodes

        def has_all() -> bool:
            first, second = (
                probe_server(node.storage_address, time.monotonic() + 5).last_tid for node in (a, b)
            )
            return first == second

        wait_until(has_all, "the secondary has everything", SECONDS)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--files", type=int, default=1000)
    options.add_argument("--size", default="1MiB")
    options.add_argument("--folder", type=Path, help="on the disk to use; a new one is made in it")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="files-figures-", dir=given.folder) as folder:
        figures = Figures(Path(folder), given.files, given.size)
        try:
            figures.measure()
        finally:
            print("\n".join(figures.table()), flush=True)
            figures.close()


if __name__ == "__main__":
    main()
