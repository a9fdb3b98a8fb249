"""Other users of the host can't read what the programs of a cluster write."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from clusters import ClusterUnderTest


def test_a_nodes_files_and_the_logs_are_for_their_owner_only(tmp_path: Path, home: Path) -> None:
    with contextlib.closing(ClusterUnderTest(tmp_path, home)) as under_test:
        under_test.start()
        written = [
            *(each.data_directory / "Data.fs" for each in under_test.cluster.nodes),
            *(tmp_path / "var" / "log").glob("node-*.log"),
        ]
        assert 4 == len(written)
        assert [] == [path for path in written if os.stat(path).st_mode & 0o077]
