"""A pack removes the blob files that nobody needs, and no other, whatever stops it."""
import itertools
import os
import random
import signal
import time

import pytest
import transaction
import ZODB
from persistent.mapping import PersistentMapping
from ZODB.blob import Blob
from ZODB.POSException import UndoError
from ZODB.serialize import referencesf

from blob_sites import BlobSite
from indico_zodbrepl.dataplane.datafs.blob_audit import audit
from indico_zodbrepl.dataplane.datafs.blobs import Blobs
from indico_zodbrepl.dataplane.datafs.compare import compare

STEPS = 'rename', 'remove', 'unlink', 'rmdir', 'mkdir', 'link'


@pytest.fixture
def site(tmpdir):
    """Two of its three blobs have two revisions, and one is garbage."""
    made = BlobSite(tmpdir.mkdir('node'))
    made.upload(kept=b'kept', changed=b'before')
    made.upload(changed=b'afterwards', removed=b'first')
    made.upload(removed=b'second')
    made.remove('removed')
    return made


def contents(folder):
    found = Blobs(str(folder))
    names = list(found.names())
    return {name: open(os.path.join(str(folder), name), 'rb').read() for name in names}


def pack(site):
    site.pack(site.tids()[-1], noted=True)


def test_old_revisions_and_garbage_are_kept_until_the_next_pack(site):
    before = contents(site.folder)
    pack(site)

    assert ['afterwards', 'kept'] == sorted(contents(site.folder).values())
    assert before == contents(site.folder + '.old')
    site.upload(changed=b'the third')
    pack(site)
    assert ['afterwards', 'kept', 'the third'] == sorted(contents(site.folder + '.old').values())


def test_the_old_revisions_of_a_packed_node_are_no_difference_to_one_that_was_not(site, tmpdir):
    other = site.copy_to(tmpdir.join('other'))
    pack(site)

    for one, upstream in ((site, other), (other, site)):
        found = compare(one.path, upstream.path)
        assert ('equal', 2, 0) == (found['relation'], found['blobs'], found['blobs_differing'])


def killed_in_step(number, site):
    """Packs in a process that gets SIGKILL before its nth step; returns whether it ended before."""
    process = os.fork()
    if not process:
        left = [number]
        try:
            for name in STEPS:
                setattr(os, name, _dying(getattr(os, name), left))
            pack(site)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(process, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == 0


def _dying(whole, left):
    def step(*arguments):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments)
    return step


def test_a_pack_that_is_killed_loses_no_file_and_what_it_leaves_is_put_aside(site, tmpdir):
    whole = contents(site.folder)
    for number in itertools.count(1):
        copy = site.copy_to(tmpdir.join('step%d' % number))
        ended = killed_in_step(number, copy)
        if not os.path.exists(copy.path):
            os.rename(copy.path + '.old', copy.path)  # as the refusal to start says
        assert 0 == audit(copy.path)['missing']
        assert {'kept', 'afterwards'} <= set(contents(copy.folder).values())
        copy.open().close()  # as a server starts
        audit(copy.path, put_aside=True)
        pack(copy)
        found = audit(copy.path, put_aside=True)
        assert (0, 2) == (found['missing'], found['blobs'])
        assert ['afterwards', 'kept'] == sorted(contents(copy.folder).values())
        assert 0 == audit(copy.path)['unreferenced']
        if ended:
            break
    assert number > 12
    assert whole == contents(site.folder)


class Random(object):
    """Changes a database with blobs at random.

    Args:
        site: a BlobSite.
        seed: for the choice.
    """

    def __init__(self, site, seed):
        self.site = site
        self.chance = random.Random(seed)
        self.undo = ['undo']

    def run(self, steps, meanwhile=lambda db: None):
        db = ZODB.DB(self.site.open())
        try:
            for _ in range(steps):
                self.step(db)
            meanwhile(db)
        finally:
            db.close()

    def step(self, db):
        manager = transaction.TransactionManager()
        connection = db.open(manager)
        do = self.chance.choice(['write', 'write', 'remove', 'move', 'clear'] + self.undo)
        if do != 'undo':
            self.change(connection.root(), do)
        else:  # alone in its transaction
            db.undo(self.chance.choice(db.undoLog(0, 4))['id'], manager.get())
        try:
            manager.commit()
        except UndoError:
            manager.abort()
        connection.close()

    def change(self, root, do):
        folder = root.setdefault('folder%d' % self.chance.randrange(3), PersistentMapping())
        name = 'n%d' % self.chance.randrange(5)
        if do == 'write':
            blob = folder.setdefault(name, Blob())
            with blob.open('w') as target:
                target.write(b'%d' % self.chance.randrange(1 << 30))
        elif do == 'remove':
            folder.pop(name, None)
        elif do == 'move' and name in folder:
            root['folder%d' % self.chance.randrange(3)] = PersistentMapping({name: folder.pop(name)})
        elif do == 'clear':
            folder.clear()


@pytest.mark.parametrize('seed', range(6))
def test_whatever_happened_each_record_has_its_file_and_each_file_its_record(tmpdir, seed):
    site = BlobSite(tmpdir.mkdir('node'))
    site.commit(*u'abcde')  # so that the root is never undone
    changes = Random(site, seed)
    for _ in range(4):
        changes.run(25)
        moment = changes.chance.choice(site.tids())
        site.pack(moment)
        found = audit(site.path)
        assert (0, 0) == (found['missing'], found['unreferenced'])
        assert compare(site.path, site.path)['blobs'] == found['blobs']
        changes.run(10)
        found = audit(site.path)
        assert (0, 0) == (found['missing'], found['unreferenced'])
        assert compare(site.path, site.path)['blobs'] == found['blobs']


@pytest.mark.parametrize('seed', range(3))
def test_commits_during_a_pack_keep_their_files(tmpdir, seed):
    site = BlobSite(tmpdir.mkdir('node'))
    site.commit(*u'abcde')  # so that the root is never undone
    changes = Random(site, seed)
    changes.run(60)

    def pack_between(db):
        storage = db.storage
        remove = storage._remove_blob_files_tagged_for_removal_during_pack

        def change_first():
            changes.undo = []  # a storage refuses it during a pack
            for _ in range(10):
                changes.step(db)
            remove()
        storage._remove_blob_files_tagged_for_removal_during_pack = change_first
        storage.pack(time.time(), referencesf)
    changes.run(0, pack_between)

    found = audit(site.path)
    assert (0, 0) == (found['missing'], found['unreferenced'])
    assert compare(site.path, site.path)['blobs'] == found['blobs']
