"""The end of a data file is cut off and kept, whatever happens meanwhile."""
import itertools
import json
import os
import random
import signal
import sys

import pytest
from ZODB.FileStorage import FileStorage
from ZODB.fsIndex import fsIndex

from blob_sites import LARGE, BlobSite
from data_files import Site
from indico_zodbrepl.dataplane.datafs import disk, truncate as module
from indico_zodbrepl.dataplane.datafs.compare import compare
from indico_zodbrepl.dataplane.datafs.export import export
from indico_zodbrepl.dataplane.datafs.failures import InUse, NoSuchTransaction, Occupied
from indico_zodbrepl.dataplane.datafs.truncate import truncate

def killed_in_step(number, path, after, keep):
    """Cuts in a process that gets SIGKILL when the nth step that changes the disk begins.

    Returns whether it ended before there were so many.
    """
    process = os.fork()
    if not process:
        try:
            _die_in_step(number)
            truncate(path, after, keep)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(process, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == 0


def _die_in_step(number):
    left = [number]

    def dying(whole):
        def step(*arguments, **more):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(*arguments, **more)
        return step

    for holder, name in ((os, 'rename'), (os, 'fsync'), (disk, 'remove'), (module, '_keep'),
                         (module, '_cut'), (module, '_open_as_storage')):
        setattr(holder, name, dying(getattr(holder, name)))


@pytest.fixture
def site(tmpdir):
    made = Site(tmpdir.join('Data.fs'))
    made.commit(u'a', u'b', u'c', u'd')
    return made


@pytest.fixture
def keep(tmpdir):
    return tmpdir.join('kept')


def content(path):
    with open(str(path), 'rb') as opened:
        return opened.read()


def test_what_follows_is_cut_and_can_be_put_back(site, keep):
    before, tids = content(site.path), site.tids()
    cut = truncate(site.path, tids[2], str(keep))

    assert tids[:3] == site.tids()
    assert before == content(site.path) + content(keep.join('cut.bin'))
    assert (len(tids) - 3, tids[3].encode('hex'), tids[-1].encode('hex'), True) == (
        cut['transactions'], cut['first'], cut['last'], cut['done'])
    note = json.loads(content(keep.join('cut.json')))
    assert disk.sha256(str(keep.join('cut.bin'))) == note['sha256'] == cut['sha256']
    assert len(content(site.path)) == note['offset']


def test_the_new_index_belongs_to_the_cut_file(site, keep):
    old = content(site.path + '.index')
    tids = site.tids()
    truncate(site.path, tids[1], str(keep))

    assert old == content(keep.join('cut.index'))
    storage = FileStorage(site.path)
    assert (1, tids[1]) == (storage._used_index, storage.lastTransaction())
    storage.close()


def index_of(path):
    return dict(fsIndex.load(path + '.index')['index'].items())


def made_from_the_whole_file(site, folder):
    copy = site.copy_to(folder.join('without-index.fs'))
    copy.open().close()
    return index_of(copy.path)


@pytest.fixture
def begins(monkeypatch):
    """Where each read of a data file begins that completes its index."""
    found, module_of_storage = [], sys.modules[FileStorage.__module__]
    read_index = module_of_storage.read_index

    def noting(*args, **more):
        found.append(more.get('start', 4))
        return read_index(*args, **more)
    monkeypatch.setattr(module_of_storage, 'read_index', noting)
    return found


def grown(tmpdir, seed):
    """A file with new, changed, removed and undone objects."""
    chance = random.Random(seed)
    made = Site(tmpdir.join('grown.fs'))
    made.commit(u'first')
    names, before = [u'first'], [u'first']
    for number in range(12):
        deed = chance.choice(['new', 'change', 'change', 'remove', 'undo'])
        if deed == 'undo':
            made.undo(made.tids()[-1])
            names, before = before, names
            continue
        before = list(names)
        if deed == 'remove' and len(names) > 1:
            made.remove(names.pop(chance.randrange(1, len(names))))
        elif deed == 'new':
            names.append(u'new-%d' % number)
            made.commit(names[-1])
        else:
            made.commit(chance.choice(names), text=u'%d' % number)
    return made


@pytest.mark.parametrize('seed', range(12))
def test_the_index_is_shortened_without_reading_the_file_again(tmpdir, keep, begins, seed):
    site = grown(tmpdir, seed)
    tids = site.tids()
    after = random.Random(seed).randrange(1, len(tids) - 1)
    del begins[:]
    offset = truncate(site.path, tids[after], str(keep))['offset']

    assert [offset] == begins
    assert made_from_the_whole_file(site, tmpdir) == index_of(site.path)


def test_of_a_killed_server_the_file_is_read_from_its_saved_index_on(site, keep, tmpdir, begins):
    old, saved = content(site.path + '.index'), os.path.getsize(site.path)
    tids = site.commit(u'later', u'too late')
    with open(site.path + '.index', 'wb') as index:
        index.write(old)
    del begins[:]
    truncate(site.path, tids[0], str(keep))

    assert [saved] == begins
    assert made_from_the_whole_file(site, tmpdir) == index_of(site.path)


def test_an_index_that_reaches_into_a_packed_part_is_made_anew(site, keep, tmpdir, begins):
    tids = site.tids()
    site.pack(tids[-2])
    left = site.tids()
    site.open().close()
    del begins[:]
    truncate(site.path, left[0], str(keep))

    assert 4 == begins[0]
    assert made_from_the_whole_file(site, tmpdir) == index_of(site.path)


@pytest.mark.parametrize('bad', [b'', b'nonsense', 'of another file'])
def test_an_unusable_index_is_made_anew(site, keep, tmpdir, bad):
    if bad == 'of another file':
        other = Site(tmpdir.join('other.fs'))
        other.commit(*u'xyzuvw')
        bad = content(other.path + '.index')
    with open(site.path + '.index', 'wb') as index:
        index.write(bad)
    truncate(site.path, site.tids()[2], str(keep))

    assert made_from_the_whole_file(site, tmpdir) == index_of(site.path)


def test_a_dry_run_tells_the_same_and_changes_nothing(site, keep, tmpdir):
    before = {path.basename: content(path) for path in tmpdir.listdir()}
    told = truncate(site.path, site.tids()[1], str(keep), dry_run=True)

    assert before == {path.basename: content(path) for path in tmpdir.listdir()}
    assert not told.pop('done')
    done = truncate(site.path, site.tids()[1], str(keep))
    told.pop('sha256')
    assert told == {key: done[key] for key in told}


@pytest.mark.parametrize('dry_run', [False, True])
def test_a_file_that_a_server_has_open_is_left_alone(site, keep, dry_run):
    before, tids = content(site.path), site.tids()
    storage = site.open()
    try:
        with pytest.raises(InUse):
            truncate(site.path, tids[1], str(keep), dry_run)
    finally:
        storage.close()
    assert before == content(site.path)
    assert not keep.check()


def test_a_cut_after_the_last_transaction_changes_nothing(site, keep):
    before = content(site.path)
    assert 0 == truncate(site.path, site.tids()[-1], str(keep))['bytes']
    assert before == content(site.path)


@pytest.mark.parametrize('tid', [b'\0' * 8, b'\1' * 8], ids=['none', 'another'])
def test_the_transaction_has_to_be_there(site, keep, tid):
    before = content(site.path)
    with pytest.raises(NoSuchTransaction):
        truncate(site.path, tid, str(keep))
    assert before == content(site.path)


@pytest.mark.parametrize('end', [b'\0' * 5000, b'garbage', 'cut'],
                         ids=['zeroes', 'garbage', 'cut'])
def test_a_damaged_end_is_cut_and_kept(site, keep, end):
    tids = site.tids()
    before = content(site.path)[:-9] if end == 'cut' else content(site.path) + end
    with open(site.path, 'wb') as data_file:
        data_file.write(before)
    truncate(site.path, tids[2], str(keep))

    assert tids[:3] == site.tids()
    assert before == content(site.path) + content(keep.join('cut.bin'))


def test_killed_at_any_step_it_leaves_the_old_or_the_new_file_and_then_finishes(
        site, tmpdir):
    whole, tids = content(site.path), site.tids()
    steps = 0
    while True:
        steps += 1
        folder = tmpdir.mkdir('step%d' % steps)
        copy = site.copy_to(folder.join('Data.fs'))
        copy.open().close()  # makes its index
        keep = folder.join('kept')
        ended = killed_in_step(steps, copy.path, tids[1], str(keep))
        now = content(copy.path)
        assert whole == now or whole == now + content(keep.join('cut.bin'))
        done = truncate(copy.path, tids[1], str(keep))
        assert done['done'] and tids[:2] == copy.tids()
        assert whole == content(copy.path) + content(keep.join('cut.bin'))
        assert len(whole) - len(content(copy.path)) == done['bytes']
        if ended:
            break
    assert steps > 12


def test_what_another_cut_kept_is_not_overwritten(site, keep):
    tids = site.tids()
    truncate(site.path, tids[3], str(keep))
    kept = content(keep.join('cut.bin'))
    with pytest.raises(Occupied):
        truncate(site.path, tids[1], str(keep))

    site.commit(u'e')
    with pytest.raises(Occupied):
        truncate(site.path, tids[3], str(keep))
    assert kept == content(keep.join('cut.bin'))


def test_a_diverged_file_that_was_cut_can_follow_again(site, keep, tmpdir):
    other = site.copy_to(tmpdir.join('other.fs'))
    other.commit(u'mine')
    site.commit(u'theirs')
    common = compare(other.path, site.path)['common']['tid']
    truncate(other.path, common.decode('hex'), str(keep))

    assert 'behind' == compare(other.path, site.path)['relation']
    other.fetch(site)
    assert content(site.path) == content(other.path)


@pytest.fixture
def uploads(tmpdir):
    """A site with a blob that stays and three to be cut; attribute `after` separates them."""
    made = BlobSite(tmpdir.mkdir('node'))
    made.after = made.upload(kept=b'stays', changed=b'before')
    made.upload(large=LARGE, empty=b'')
    made.upload(changed=b'afterwards')
    return made


def blobs_in(folder):
    """Returns the content of each file of a blob folder by its path, with the layout's."""
    return {os.path.relpath(os.path.join(path, name), str(folder)): content(
        os.path.join(path, name)) for path, _, names in os.walk(str(folder)) for name in names}


@pytest.mark.parametrize('exported', [True, False])
def test_blobs_of_cut_transactions_are_moved_beside_what_is_cut(uploads, keep, exported):
    folder = uploads.parent.join('node', 'blobs')
    before = blobs_in(folder)
    if exported:
        export(uploads.path, uploads.after, str(keep))
    done = truncate(uploads.path, uploads.after, str(keep))

    assert (3, len(LARGE) + 10) == (done['blobs'], done['blob_bytes'])
    left, moved = blobs_in(folder), blobs_in(keep.join('blobs'))
    assert [b'before', b'bushy', b'stays'] == sorted(left.values())
    assert [b'', b'bushy', b'afterwards', LARGE] == sorted(moved.values(), key=len)
    assert before == dict(left, **moved)


def test_what_is_cut_can_be_put_back_with_its_blobs(uploads, keep):
    folder, before = uploads.parent.join('node', 'blobs'), content(uploads.path)
    files = blobs_in(folder)
    truncate(uploads.path, uploads.after, str(keep))
    with open(uploads.path, 'ab') as data:
        data.write(content(keep.join('cut.bin')))
    for name, each in blobs_in(keep.join('blobs')).items():
        folder.join(name).write(each, 'wb', ensure=True)

    assert before == content(uploads.path)
    assert files == blobs_in(folder)


def test_a_dry_run_leaves_blobs_alone(uploads, keep):
    folder = uploads.parent.join('node', 'blobs')
    before = blobs_in(folder)
    done = truncate(uploads.path, uploads.after, str(keep), dry_run=True)

    assert (3, len(LARGE) + 10, False) == (done['blobs'], done['blob_bytes'], done['done'])
    assert before == blobs_in(folder)
    assert not keep.check()


def test_a_missing_blob_does_not_prevent_a_cut(uploads, keep):
    os.unlink(uploads.blob('large'))
    done = truncate(uploads.path, uploads.after, str(keep))

    assert (3, 10, True) == (done['blobs'], done['blob_bytes'], done['done'])


def test_killed_at_any_step_no_blob_is_lost_and_the_next_call_moves_the_rest(tmpdir):
    node = tmpdir.mkdir('node')
    uploads = BlobSite(node)
    uploads.after = uploads.upload(kept=b'stays', changed=b'before')
    uploads.upload(small=b'small', empty=b'')
    uploads.upload(changed=b'afterwards')
    before = blobs_in(node.join('blobs'))
    for steps in itertools.count(1):
        site = uploads.copy_to(tmpdir.join('step%d' % steps))
        folder = tmpdir.join('step%d' % steps, 'blobs')
        keep = tmpdir.join('kept%d' % steps)
        ended = killed_in_step(steps, site.path, uploads.after, str(keep))
        found = dict(blobs_in(folder), **blobs_in(keep.join('blobs')))
        assert before == {name: found[name] for name in before}
        if os.path.getsize(site.path) == os.path.getsize(uploads.path):
            assert before == blobs_in(folder)
        truncate(site.path, uploads.after, str(keep))
        assert [b'before', b'bushy', b'stays'] == sorted(blobs_in(folder).values())
        assert 4 == len(blobs_in(keep.join('blobs')))
        if ended:
            break
    assert steps > 20
