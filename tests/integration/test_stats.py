"""stats of a real cluster: the same sums from a data file, a server and a stopped node."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from clusters import PATIENCE, ClusterUnderTest, wait_until

from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.host import statistics
from indico_zodbrepl.host.statistics import Source

FILL = """
import sys, transaction, ZODB, ZODB.config
from persistent.mapping import PersistentMapping
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
connection = db.open()
for number in range(10):
    connection.root()[number] = PersistentMapping(text='x' * 100 * number)
    transaction.commit()
connection.close()
db.close()
"""


def stats(under_test: ClusterUnderTest, *arguments: str) -> dict[str, Any]:
    done = under_test.cli("stats", "--json", *arguments)
    assert (0, "") == (done.returncode, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sums(found: dict[str, Any]) -> tuple[Any, ...]:
    return (
        found["objects"],
        found["bytes"],
        found["revisions"],
        found["revision_bytes"],
        found["classes"],
        found["modules"],
        found["largest"],
    )


def test_a_cluster_is_summed_from_files_and_through_its_server(cluster: ClusterUnderTest) -> None:
    cluster.start()
    layout = Layout(cluster.cluster)
    subprocess.run(
        [cluster.installation.python27, "-c", FILL, layout.zodb_conf], timeout=PATIENCE, check=True
    )
    a, b = cluster.cluster.nodes
    wait_until(lambda: data_fs(a).stat().st_size == data_fs(b).stat().st_size, "b has everything")
    found = stats(cluster)
    assert ("test", "file", "a") == (found["cluster"], found["kind"], found["node"])
    assert (11, 10, 11) == (found["objects"], found["revisions"], found["transactions"])
    assert found["largest"][0]["bytes"] > 900
    through_server = statistics.statistics(
        cluster.installation, Source("storage", layout.zodb_conf, None), 15
    )
    assert sums(found) == sums(through_server)
    assert sums(found) == sums(stats(cluster, "--node", "b"))
    cluster.cli("down").check_returncode()
    assert sums(found) == sums(stats(cluster))
    for_people = cluster.cli("stats", "--top", "3")
    assert "11 objects" in for_people.stdout
    assert "\x1b" not in for_people.stdout
