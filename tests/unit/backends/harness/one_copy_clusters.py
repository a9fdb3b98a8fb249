"""Clusters of the examples with one copy of the data, in a test's own folder."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ZConfig.schemaless

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout

HOME = Path(__file__).parents[4]
INSTALLATION = Installation(HOME)
PATIENCE = 120.0

COMMIT = """\
import sys, transaction, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
with db.transaction() as connection:
    connection.root()['a'] = sys.argv[2]
print(db.lastTransaction().encode('hex'))
if len(sys.argv) > 3:
    sys.stdout.flush()
    sys.stdin.read()
db.close()
"""


def cluster_of(name: str, folder: Path) -> Cluster:
    """The example of a backend, with its files below ``folder``."""
    cluster = load(HOME / "etc" / f"cluster-{name}.conf", folder)
    return dataclasses.replace(cluster, var_directory=folder / "var")


def made(cluster: Cluster) -> Cluster:
    """The same, with its folders and its clients' files."""
    cluster.nodes[0].data_directory.mkdir(parents=True)
    for path, text in backend_of(cluster).client_files(cluster).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return cluster


def found(cluster: Cluster) -> list[str]:
    """Found it; what was said of that."""
    said: list[str] = []
    backend_of(cluster).found(cluster, INSTALLATION, said.append, time.monotonic() + PATIENCE)
    return said


def commit(cluster: Cluster, value: str) -> int:
    """Save something as a client does; the transaction's id."""
    done = subprocess.run(
        [INSTALLATION.python27, "-c", COMMIT, Layout(cluster).zodb_conf, value],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=INSTALLATION.environment27(),
    )
    return int(done.stdout, 16)


def ask(cluster: Cluster) -> Any:
    """What its node says, in a second."""
    return backend_of(cluster).ask(cluster, cluster.nodes[0], time.monotonic() + 1)


def facts_of(cluster: Cluster) -> Mapping[str, str]:
    """Facts by their label."""
    return {fact.label: fact.value for fact in ask(cluster).facts}


def sections(text: str) -> dict[str, Any]:
    """The sections of a file by their type."""

    def walk(parsed: Any) -> Iterator[Any]:
        for section in parsed.sections:
            yield section
            yield from walk(section)

    return {
        section.type: dict(section)
        for section in walk(ZConfig.schemaless.loadConfigFile(io.StringIO(text)))
    }
