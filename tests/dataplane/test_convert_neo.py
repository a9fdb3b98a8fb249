"""A NEO cluster takes a whole history and gives it back."""
import contextlib

import pytest
import transaction
import ZODB
from persistent.mapping import PersistentMapping
from ZODB.FileStorage import FileStorage

from blob_sites import BlobSite
from conversions import convert, history, objects, sqlite_conf, transactions
from indico_zodbrepl.dataplane.convert import storages
from indico_zodbrepl.dataplane.convert.failures import CanNotBeKept, OtherData
from indico_zodbrepl.dataplane.convert.storages import open_conf
from neo_clusters import NEOCluster


@pytest.fixture(scope='module')
def site(tmpdir_factory):
    return history(tmpdir_factory.mktemp('site').join('Data.fs'))


@pytest.fixture(scope='module')
def filled(tmpdir_factory, site):
    """The configuration of a cluster that was filled in two runs."""
    cluster = NEOCluster(tmpdir_factory.mktemp('neo'), storages=1, replicas=0)
    try:
        cluster.found()
        conf = tmpdir_factory.mktemp('conf').join('zodb.conf')
        conf.write(cluster.configuration())
        _interrupt_after(5, site.path, conf)
        answer = convert(site.path, conf)
        assert (5, len(site.tids()) - 5) == (answer['held'], answer['copied'])
        yield conf
    finally:
        cluster.close()


def _interrupt_after(count, source, target):
    write = storages.NEOTarget.write
    left = [count]

    def interrupted(self, *args):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        write(self, *args)

    storages.NEOTarget.write = interrupted
    try:
        with pytest.raises(KeyboardInterrupt):
            convert(source, target)
    finally:
        storages.NEOTarget.write = write


def but_for_extensions(path):
    return [each[:4] + each[5:] for each in transactions(path)]


def test_the_history_is_the_same_and_comes_back_the_same(site, filled, tmpdir):
    back = tmpdir.join('back.fs')
    assert but_for_extensions(site.path) == but_for_extensions(filled)
    convert(filled, back)
    assert but_for_extensions(site.path) == but_for_extensions(back)
    with contextlib.closing(FileStorage(site.path, read_only=True)) as mine, \
            contextlib.closing(FileStorage(str(back), read_only=True)) as theirs:
        assert ([each.extension for each in mine.iterator()]
                == [each.extension for each in theirs.iterator()])
    convert(filled, sqlite_conf(tmpdir.mkdir('sqlite')))


def test_another_database_is_refused(filled, tmpdir):
    other = history(tmpdir.join('other.fs'))
    with pytest.raises(OtherData):
        convert(other.path, filled)


def test_blobs_are_refused_before_anything_is_written(filled, tmpdir):
    before = transactions(filled)
    other = BlobSite(tmpdir.mkdir('node'))
    other.upload(one=b'one')
    with pytest.raises(CanNotBeKept):
        convert(other.path, filled)
    assert before == transactions(filled)


def test_the_copy_is_worked_with_like_any_other(site, filled):
    oids = {oid for each in transactions(site.path) for oid, _data in each[-1]}
    with contextlib.closing(FileStorage(site.path, read_only=True)) as mine, \
            contextlib.closing(open_conf(str(filled))) as theirs:
        assert objects(mine, oids) == objects(theirs, oids)
    opened = ZODB.DB(open_conf(str(filled)))
    manager = transaction.TransactionManager()
    connection = opened.open(manager)
    connection.root()[u'new'] = PersistentMapping()
    manager.commit()
    assert connection.root()[u'new']._p_oid > max(oids)
    assert connection.root()[u'new']._p_serial > site.tids()[-1]
    connection.close()
    opened.close()
