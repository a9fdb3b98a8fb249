"""NEO whose storages keep their parts in MariaDB, where its driver for Python 2.7 is there."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import PATIENCE, ClusterUnderTest, Roles, running, wait_until
from storage_writer import READER, Writer

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout

NODES: Roles = {
    "m": ("master", None),
    "s1": ("storage", None),
    "s2": ("storage", None),
    "w": ("admin", None),
}


def missing(home: Path) -> str | None:
    """What has to be installed for these tests."""
    if not shutil.which("mariadb-install-db") or not shutil.which("mariadbd"):
        return "mariadb-server"
    driver = subprocess.run(
        [Installation(home).python27, "-c", "import MySQLdb"], capture_output=True, check=False
    )
    return "mysqlclient 1.4.6 in our Python 2.7" if driver.returncode else None


@pytest.fixture
def socket(home: Path) -> Iterator[Path]:
    """Of a MariaDB server with a database for each storage."""
    package = missing(home)
    if package is not None:
        pytest.skip(f"needs {package}")
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="neo-mariadb-")))
        scratch = folder / "scratch"
        scratch.mkdir()
        common = ["--no-defaults", f"--datadir={folder}/data", f"--tmpdir={scratch}"]
        user = ["--user=root"] if os.geteuid() == 0 else []
        subprocess.run(
            [
                "mariadb-install-db",
                *common,
                *user,
                "--skip-test-db",
                "--auth-root-authentication-method=socket",
            ],
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )
        server = subprocess.Popen(
            [
                "mariadbd",
                *common,
                *user,
                f"--socket={folder}/socket",
                "--skip-networking",
                "--max-allowed-packet=64M",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        opened.callback(server.wait, PATIENCE)
        opened.callback(server.kill)
        wait_until((folder / "socket").exists, "MariaDB listens")
        for storage in ("s1", "s2"):
            sql(folder / "socket", f"CREATE DATABASE neo_test_{storage}")
        yield folder / "socket"


def sql(socket: Path, statement: str) -> str:
    return subprocess.run(
        ["mariadb", "--no-defaults", "-N", "-S", socket, "-e", statement],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    ).stdout.strip()


def test_both_storages_hold_everything_and_none_is_lost_when_one_is_killed(
    tmp_path: Path, home: Path, socket: Path
) -> None:
    folder = tmp_path / "neo"
    folder.mkdir()
    engine = ("<neo>", "  replicas 1", "  adapter mariadb", f"  mariadb-socket {socket}", "</neo>")
    with running(ClusterUnderTest(folder, home, NODES, backend="neo", engine=engine)) as neo:
        with Writer(neo) as writer:
            writer.goes_on()
            os.kill(neo.pid_of("node-s1"), signal.SIGKILL)
            writer.goes_on()
        found = subprocess.run(
            [neo.installation.python27, "-c", READER, Layout(neo.cluster).zodb_conf],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        ).stdout
        assert set(writer.acknowledged) <= set(map(int, found.split()))
        wait_until(
            lambda: count(socket, "s1") == count(socket, "s2") > 1, "both storages hold the same"
        )


def count(socket: Path, storage: str) -> int:
    """How many revisions of objects a storage holds."""
    return int(sql(socket, f"SELECT COUNT(*) FROM neo_test_{storage}.obj"))  # noqa: S608 - ours
