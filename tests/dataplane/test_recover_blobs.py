"""Lost uploads are made again with their content, or refused with the path of their file."""
import json
import os

import pytest
import transaction
import ZODB
from BTrees.OOBTree import OOBTree
from ZODB.blob import Blob
from ZODB.POSException import ConflictError

from blob_sites import LARGE, BlobSite
from indico_zodbrepl.dataplane.datafs.export import export
from indico_zodbrepl.dataplane.recover import database, program
from nodes import Node


class Failover(object):
    """A primary with a repository of files, and an old primary that had more."""

    def __init__(self, tmpdir):
        self.folder = tmpdir
        self.old = BlobSite(tmpdir.mkdir('old'))
        self.change(self.old, lambda root: root.update(files=OOBTree()))
        self.common = self.change(self.old, upload('1', b'before'))
        self.new = self.old.copy_to(tmpdir.join('new'))
        self.tail = str(tmpdir.join('tail'))
        self.conf = str(tmpdir.join('zodb.conf'))
        self.configure('  blob-dir %s\n' % self.new.folder)

    def configure(self, more):
        with open(self.conf, 'w') as conf:
            conf.write('<filestorage>\n  path %s\n%s</filestorage>\n' % (self.new.path, more))

    def change(self, site, *steps):
        """Commits each step, a function of the root object; returns the last one's id."""
        db = ZODB.DB(site.open())
        manager = transaction.TransactionManager()
        root = db.open(manager).root()
        for step in steps:
            step(root)
            manager.commit()
        last = db.lastTransaction()
        manager.abort()
        db.close()
        return last

    def lose(self, *steps):
        self.change(self.old, *steps)
        export(self.old.path, self.common, self.tail)

    def content(self, name):
        db = ZODB.DB(self.new.open())
        try:
            entry = db.open().root()['files'][name]
            with entry[1].open('r') as content:
                return content.read()
        finally:
            db.close()


def upload(name, content):
    """As Indico does it."""
    def step(root):
        entry = root['files'].get(name)
        blob = Blob() if entry is None else entry[1]
        with blob.open('w') as target:
            target.write(content)
        root['files'][name] = ('2026/C1/%s/slides.pdf' % name, blob, len(content), 'ab' * 32, 1.5)
    return step


@pytest.fixture
def failover(tmpdir):
    return Failover(tmpdir)


@pytest.fixture
def run(failover, capsys):
    def run(command, *more):
        capsys.readouterr()
        status = program.main([command, failover.tail, failover.conf] + list(more))
        output = capsys.readouterr().out
        return status, json.loads(output) if output else None
    return run


def outcomes(said):
    return [each['outcome'] for each in said['transactions']]


def blobs(said):
    return [each for transaction in said['transactions'] for each in transaction['objects']
            if each['what'] == 'ZODB.blob.Blob']


@pytest.mark.parametrize('content', [b'', b'a talk', LARGE])
def test_a_lost_upload_is_made_again_with_its_content(failover, run, content):
    failover.lose(upload('2', content))
    failover.change(failover.new, lambda root: root.update(other=1))
    status, said = run('apply', 'all', '--user', 'olga')

    assert (0, ['applies']) == (status, outcomes(said))
    assert content == failover.content('2')
    assert b'before' == failover.content('1')
    assert os.path.exists(blobs(said)[0]['file'])  # the export stays whole


def test_an_upload_of_others_since_does_not_prevent_it(failover, run):
    """They have the lost one's object id, too."""
    failover.lose(upload('2', b'lost'))
    failover.change(failover.new, upload('3', b'made since'))
    status, said = run('apply', 'all', '--user', 'olga')

    assert (0, ['applies']) == (status, outcomes(said))
    assert [b'lost', b'made since'] == map(failover.content, '23')


def test_a_new_content_of_a_file_that_nobody_changed_since_is_made_again(failover, run):
    failover.lose(upload('1', b'corrected'), upload('1', b'corrected twice'))
    status, said = run('apply', 'all', '--user', 'olga')

    assert (0, ['applies'] * 2) == (status, outcomes(said))
    assert b'corrected twice' == failover.content('1')
    assert [[{'field': 'content', 'old': None, 'new': '9 bytes'}],
            [{'field': 'content', 'old': None, 'new': '15 bytes'}]] == [
                each['differences'] for each in blobs(said)]


def test_transactions_on_one_file_are_made_again_one_after_the_other(failover, run):
    failover.lose(upload('1', b'corrected'), upload('1', b'corrected twice'))
    _, said = run('show')
    for each in said['transactions']:
        assert 0 == run('apply', each['tid'], '--user', 'olga')[0]

    assert b'corrected twice' == failover.content('1')


def test_a_content_that_both_sides_changed_is_refused_with_its_file(failover, run):
    failover.lose(upload('1', b'lost'))
    failover.change(failover.new, upload('1', b'kept'))
    status, said = run('apply', 'all', '--user', 'olga')
    blob, = blobs(said)

    assert (program.NOTHING, ['conflicts']) == (status, outcomes(said))
    assert ('conflicts', 'changed on both sides; the lost file is %s' % blob['file']) == (
        blob['outcome'], blob['why'])
    assert '2026/C1/1/slides.pdf' == blob['file_name']
    with open(blob['file'], 'rb') as content:
        assert b'lost' == content.read()
    assert b'kept' == failover.content('1')


def test_an_upload_with_an_id_that_others_got_since_is_refused_with_its_file(failover, run):
    failover.lose(upload('2', b'lost'))
    failover.change(failover.new, upload('2', b'kept'))
    status, said = run('apply', 'all', '--user', 'olga')
    blob, = blobs(said)

    assert (program.NOTHING, ['conflicts']) == (status, outcomes(said))
    assert '2026/C1/2/slides.pdf' == blob['file_name']
    with open(blob['file'], 'rb') as content:
        assert b'lost' == content.read()


def test_a_content_that_both_sides_have_is_not_written_again(failover, run):
    failover.lose(upload('1', b'same'))
    failover.change(failover.new, upload('1', b'same'))
    _, said = run('show')

    assert 'has it' == blobs(said)[0]['outcome']


def test_a_file_that_was_missing_when_it_was_exported_is_named(failover, run):
    failover.change(failover.old, upload('2', b'lost'))
    last = failover.old.tids()[-1].encode('hex')
    for path, _, names in os.walk(failover.old.folder):
        for name in names:
            if last in name:
                os.unlink(os.path.join(path, name))
    export(failover.old.path, failover.common, failover.tail)
    status, said = run('apply', 'all', '--user', 'olga')
    blob, = blobs(said)

    assert (program.NOTHING, None) == (status, blob['file'])
    assert 'its file was missing when it was exported' == blob['why']


def test_a_database_without_blobs_is_not_given_any(failover, run):
    failover.configure('')
    failover.lose(upload('2', b'lost'))
    status, said = run('apply', 'all', '--user', 'olga')
    blob, = blobs(said)

    assert (program.NOTHING, 'the database keeps no blobs; the file is %s' % blob['file']) == (
        status, blob['why'])


def test_after_a_conflict_the_files_are_written_in_the_next_attempt(failover, run, monkeypatch):
    failover.lose(upload('2', b'lost'))
    write = program.write
    attempts = []

    def conflicting(database, plan, oids, user, description):
        attempts.append(1)
        if len(attempts) == 1:
            storage = database.storage
            vote = storage.tpc_vote
            monkeypatch.setattr(storage, 'tpc_vote', raise_conflict)
            try:
                return write(database, plan, oids, user, description)
            finally:
                monkeypatch.setattr(storage, 'tpc_vote', vote)
        return write(database, plan, oids, user, description)
    monkeypatch.setattr(program, 'write', conflicting)
    assert 0 == run('apply', 'all', '--user', 'olga')[0]

    assert 2 == len(attempts)
    assert b'lost' == failover.content('2')
    assert [] == os.listdir(os.path.join(failover.new.folder, 'tmp'))


def raise_conflict(*_):
    raise ConflictError


def test_a_lost_upload_is_made_again_through_a_storage_server(failover, processes, run):
    failover.lose(upload('2', LARGE))
    node = Node(processes, failover.folder, 'new')
    node.start()
    with open(failover.conf, 'w') as conf:
        conf.write('%%import ZEO\n<clientstorage>\n  server %s\n  blob-dir %s\n'
                   '  shared-blob-dir false\n</clientstorage>\n' % (
                       '127.0.0.1:%d' % node.port, failover.folder.join('cache')))
    assert 0 == run('apply', 'all', '--user', 'olga')[0]

    db = ZODB.DB(node.client(blob_dir=str(failover.folder.join('other-cache'))))
    with db.open().root()['files']['2'][1].open('r') as content:
        assert LARGE == content.read()
    db.close()
