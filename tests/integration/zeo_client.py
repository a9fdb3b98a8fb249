"""Programs for Python 2.7 that tests of the control plane run beside real servers."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import programs27
from clusters import ClusterUnderTest

SECONDS = 120

# Commits one object a transaction to a server, in a BTree, under keys that begin with a prefix;
# with a count of 0 until its standard input is closed.  Prints the ids as a JSON list.
COMMIT = """
import json, select, sys, transaction, ZODB
from BTrees.OOBTree import OOBTree
from persistent.mapping import PersistentMapping
from ZEO.ClientStorage import ClientStorage
host, port, prefix, count = sys.argv[1:]
db = ZODB.DB(ClientStorage((host, int(port)), wait_timeout=60))
root = db.open().root()
if 'tree' not in root:
    root['tree'] = OOBTree()
    transaction.commit()
tids = []
while len(tids) < int(count) or not int(count) and not select.select([0], [], [], 0)[0]:
    root['tree']['%s%d' % (prefix, len(tids))] = PersistentMapping(text=2000 * 'x')
    transaction.get().note(u'%s %d' % (prefix, len(tids)))
    transaction.commit()
    tids.append(db.lastTransaction().encode('hex'))
db.close()
print(json.dumps(tids))
"""

# Appends to a data file what another one has after the file's common part, as an unguarded
# follower would have received it.
MERGE = """
import sys
from ZODB.FileStorage import FileStorage
mine, theirs = FileStorage(sys.argv[1]), FileStorage(sys.argv[2], read_only=True)
last = mine.lastTransaction()
for each in theirs.iterator():
    if each.tid > last:
        mine.tpc_begin(each, each.tid, each.status)
        for record in each:
            mine.restore(record.oid, record.tid, record.data, '', record.data_txn, each)
        mine.tpc_vote(each)
        mine.tpc_finish(each)
mine.close()
"""

# The keys in that BTree, through a server, as a JSON list.
KEYS = """
import json, sys, ZODB
from ZEO.ClientStorage import ClientStorage
db = ZODB.DB(ClientStorage((sys.argv[1], int(sys.argv[2])), wait_timeout=60, read_only=True))
print(json.dumps([key for key, value in db.open().root()['tree'].items() if value['text']]))
db.close()
"""

# A data file of its own.
UNRELATED = """
import sys, transaction, ZODB
db = ZODB.DB(sys.argv[1])
db.open().root()['of'] = u'another database'
transaction.commit()
db.close()
"""


def python27(under_test: ClusterUnderTest, program: str, *arguments: str | Path) -> str:
    """Run a program to its end; its standard output."""
    return programs27.output_of(
        under_test.installation.python27, program, *arguments, seconds=SECONDS
    )


def commit(under_test: ClusterUnderTest, node: str, prefix: str, count: int) -> list[str]:
    """Commit through one node's server; the transactions' ids."""
    address = under_test.cluster.node(node).storage_address
    tids = json.loads(
        python27(under_test, COMMIT, address.host, str(address.port), prefix, str(count))
    )
    assert count == len(tids)
    return [str(tid) for tid in tids]


def keys(under_test: ClusterUnderTest, node: str) -> set[str]:
    """What was committed, as one node's server has it."""
    address = under_test.cluster.node(node).storage_address
    return set(json.loads(python27(under_test, KEYS, address.host, str(address.port))))


@contextlib.contextmanager
def writing(under_test: ClusterUnderTest, node: str, prefix: str) -> Iterator[list[str]]:
    """Somebody commits through a node meanwhile; afterwards the list holds the ids."""
    address = under_test.cluster.node(node).storage_address
    tids: list[str] = []
    process = subprocess.Popen(
        [
            under_test.installation.python27,
            "-c",
            COMMIT,
            address.host,
            str(address.port),
            prefix,
            "0",
        ],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield tids
        output, _errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
    assert 0 == process.returncode
    tids += json.loads(output)
