"""A transaction that a kill left unfinished is not the last one of a data file."""
import os
import subprocess
import sys

import pytest
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.utils import z64

from data_files import Site
from indico_zodbrepl.dataplane.zrs import repairs

OPEN = """
import sys
from indico_zodbrepl.dataplane.zrs import repairs as cut_transactions
from ZODB.FileStorage import FileStorage
if sys.argv[2] == 'repaired':
    cut_transactions.repair_last_tid()
storage = FileStorage(sys.argv[1])
print storage.lastTransaction().encode('hex'), storage.getSize()
"""


def leave_unfinished(path):
    """Votes and stops there, as a server does that is killed in between; the tid."""
    storage = FileStorage(path)
    unfinished = TransactionMetaData()
    storage.tpc_begin(unfinished)
    oid = storage.new_oid()
    storage.store(oid, z64, 'never finished', '', unfinished)
    storage.tpc_vote(unfinished)
    tid = storage._tid
    content = open(path, 'rb').read()
    storage.tpc_abort(unfinished)
    storage.close()
    with open(path, 'wb') as stream:
        stream.write(content)
    return tid


def opened(path, how):
    """What a process of its own takes for the last transaction, and for the size."""
    tid, size = subprocess.check_output(
        [sys.executable, '-c', OPEN, path, how], stderr=subprocess.STDOUT).split()[-2:]
    return tid.decode('hex'), int(size)


@pytest.fixture
def site(tmpdir):
    return Site(tmpdir.join('Data.fs'))


def test_stock_zodb_gives_the_id_of_what_it_has_cut_off(site):
    site.commit(u'one')
    unfinished = leave_unfinished(site.path)
    assert unfinished == opened(site.path, 'stock')[0]


@pytest.mark.parametrize('index', [True, False])
def test_repaired_it_gives_the_id_of_the_last_one_that_is_there(site, index):
    last = site.commit(u'one', u'two')[-1]
    size = os.path.getsize(site.path)
    leave_unfinished(site.path)
    if not index:
        os.remove(site.path + '.index')
    assert (last, size) == opened(site.path, 'repaired')


def test_a_whole_file_and_an_empty_one_are_read_as_before(site):
    assert (z64, 4) == opened(site.path, 'repaired')
    last = site.commit(u'one')[-1]
    assert last == opened(site.path, 'repaired')[0]
    with open(site.path, 'rb') as stream:
        stream.seek(0, 2)
        assert last == repairs.last_tid(stream, stream.tell())
