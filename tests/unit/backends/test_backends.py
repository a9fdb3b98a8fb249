"""All backends: what they are called, and that none is imported before a cluster has it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from indico_zodbrepl import backends
from indico_zodbrepl.cluster.shapes import SHAPES

# Prints the drivers that a command of a ZRS cluster has imported.
IMPORTED = """
import sys
import indico_zodbrepl.cli, indico_zodbrepl.cli.node, indico_zodbrepl.cli.status_view
from indico_zodbrepl import backends
backends.named("zrs")
print(*sorted({"psycopg", "pymysql"} & set(sys.modules)))
backends.named("relstorage-postgresql")
print(*sorted({"psycopg", "pymysql"} & set(sys.modules)))
"""


@pytest.mark.parametrize("name", backends.names())
def test_a_backend_has_the_name_that_it_is_asked_for_by(name: str) -> None:
    assert name == backends.named(name).name
    assert backends.IBackend.providedBy(backends.named(name))


def test_there_is_a_backend_for_each_shape_of_a_cluster_file() -> None:
    assert set(SHAPES) == set(backends.names())


def test_a_driver_is_imported_only_for_the_backend_that_needs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert "\npsycopg\n" == done.stdout
