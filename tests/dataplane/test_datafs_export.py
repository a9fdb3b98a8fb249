"""What follows a transaction is taken out of a data file, listed, and readable by itself."""
import json
import os

import pytest
import transaction
import ZODB
import ZODB.blob
from ZODB.FileStorage import FileStorage

from data_files import Site
from indico_zodbrepl.dataplane.datafs.compare import compare
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.export import EVERYTHING, export
from indico_zodbrepl.dataplane.datafs.failures import Damaged, NoSuchTransaction, Occupied
from indico_zodbrepl.dataplane.datafs.records import describe


@pytest.fixture
def site(tmpdir):
    made = Site(tmpdir.join('Data.fs'))
    made.commit(u'a', u'b')
    return made


@pytest.fixture
def folder(tmpdir):
    return tmpdir.join('tail')


def listed(folder):
    return json.loads(folder.join('tail.json').read())['transactions']


def store(site, blobs=None, **objects):
    """Commits objects under keys of the root; returns the tid."""
    storage = FileStorage(site.path, blob_dir=blobs and str(blobs))
    db = ZODB.DB(storage)
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    connection.root().update(objects)
    manager.commit()
    connection.close()
    db.close()
    return storage.lastTransaction()


def test_the_tail_is_a_storage_of_the_same_transactions(site, folder):
    after = site.tids()[-1]
    tids = site.commit(u'c', u'a')
    tids.append(site.undo(tids[-1]))
    summary = export(site.path, after, str(folder))

    with FileStorageOf(folder) as tail:
        assert tids == [each.tid for each in tail.iterator()]
    assert [tids[0].encode('hex'), tids[-1].encode('hex'), 3] == [
        summary[key] for key in ('first', 'last', 'transactions')]
    assert [tid.encode('hex') for tid in tids] == [each['tid'] for each in listed(folder)]


class FileStorageOf(object):
    def __init__(self, folder):
        self.path = str(folder.join('tail.fs'))

    def __enter__(self):
        self.storage = FileStorage(self.path, read_only=True)
        return self.storage

    def __exit__(self, *_):
        self.storage.close()


def test_an_export_of_everything_equals_the_file(site, folder):
    site.undo(site.commit(u'a')[0])
    export(site.path, EVERYTHING, str(folder))
    found = compare(str(folder.join('tail.fs')), site.path)

    assert ('equal', 0) == (found['relation'], found['private'])


def test_the_list_says_who_did_what_and_which_objects_are_new(site, folder):
    after = site.tids()[-1]
    site.commit(u'c')
    export(site.path, after, str(folder))
    only, = listed(folder)

    assert ('/ someone', 'changed c') == (only['user'], only['description'])
    assert only['time'].endswith('Z')
    assert ['changed', 'new', 'changed'] == [each['change'] for each in only['objects']]
    assert {'persistent.mapping.PersistentMapping'} == {
        each['class'] for each in only['objects']}


@pytest.fixture
def indico_objects(tmpdir):
    """Objects of Indico as they are stored, by what they are to be called."""
    with tmpdir.mkdir('indico').as_cwd():  # without an indico.conf its log goes there
        from MaKaC.conference import Category, Conference, Contribution, Session
        from MaKaC.user import Avatar
    conference = Conference.__new__(Conference)
    conference.__dict__.update(id='12', title='A title')
    contribution = Contribution.__new__(Contribution)
    contribution.__dict__.update(id='3', title=u'G\xe4ste')
    category = Category.__new__(Category)
    category.__dict__.update(id='0', name='Home')
    session = Session.__new__(Session)
    session.__dict__.update(id='s1', title=u'Mor\x1b[2Jn\x9bing')
    avatar = Avatar.__new__(Avatar)
    avatar.__dict__.update(id='7', name='Ada', surName='Lovelace')
    return {
        u'Conference 12 "A title"': conference, u'Contribution 3 "G\xe4ste"': contribution,
        u'Category 0 "Home"': category, u'Session s1 "Mor?[2Jn?ing"': session,
        u'Avatar 7 "Ada Lovelace"': avatar,
    }


def test_objects_of_indico_are_called_by_what_they_are(site, folder, indico_objects):
    after = site.tids()[-1]
    named = indico_objects
    store(site, **{'key%d' % number: each for number, each in enumerate(named.values())})
    summary = export(site.path, after, str(folder))
    found = {each['what'] for each in listed(folder)[0]['objects']}

    assert set(named) == found - {None}
    assert set(named) == set(summary['notable'])


def test_nothing_that_a_pickle_names_is_run(tmpdir):
    made = tmpdir.join('made')
    evil = b"cos\nsystem\n(S'touch %s'\ntR." % str(made)

    assert ('?', None) == describe(evil)
    assert ('MaKaC.conference.Conference', None) == describe(
        b'cMaKaC.conference\nConference\n.' + evil)
    assert not made.check()


@pytest.mark.parametrize('data', [None, b'', b'no pickle', b'\x80\x03', b'(l.', b'N.'],
                         ids=repr)
def test_a_record_that_can_not_be_read_is_listed_all_the_same(data):
    assert ('?', None) == describe(data)


def test_blobs_are_copied_and_missing_ones_are_reported(site, tmpdir, folder):
    after = site.tids()[-1]
    blobs = tmpdir.join('blobs')
    made = {key: ZODB.blob.Blob(key) for key in ('one', 'two')}
    store(site, blobs, **made)
    paths = {path.read(): path for path in blobs.visit('*.blob')}
    paths['two'].remove()
    summary = export(site.path, after, str(folder))

    assert (1, 1) == (summary['blobs'], summary['missing_blobs'])
    assert ['one'] == [path.read() for path in folder.join('blobs').visit('*.blob')]
    kept = [each.get('blob', 'none') for each in listed(folder)[0]['objects']]
    assert {None, 'none', paths['one'].relto(tmpdir)} == set(kept)


def test_an_export_for_a_list_only_leaves_blobs_out(site, tmpdir, folder):
    after = site.tids()[-1]
    store(site, tmpdir.join('blobs'), one=ZODB.blob.Blob('one'))
    summary = export(site.path, after, str(folder), with_blobs=False)

    assert (0, 0) == (summary['blobs'], summary['missing_blobs'])
    assert not folder.join('blobs').check()


def test_an_export_after_the_last_transaction_is_empty(site, folder):
    summary = export(site.path, site.tids()[-1], str(folder))

    assert 0 == summary['transactions']
    with FileStorageOf(folder) as tail:
        assert [] == list(tail.iterator())


def test_only_the_owner_may_read_what_was_exported(site, folder):
    export(site.path, EVERYTHING, str(folder))
    assert {'tail': 0o700, 'tail.fs': 0o600, 'tail.json': 0o600} == {
        each.basename: each.stat().mode & 0o777 for each in [folder] + folder.listdir()}


def test_a_folder_that_exists_is_left_alone(site, folder):
    folder.ensure('mine')
    with pytest.raises(Occupied):
        export(site.path, EVERYTHING, str(folder))
    assert ['mine'] == [path.basename for path in folder.listdir()]


def test_the_transaction_has_to_be_there(site, folder):
    with pytest.raises(NoSuchTransaction):
        export(site.path, b'\1' * 8, str(folder))


def test_an_export_that_fails_leaves_no_folder_and_can_be_repeated(site, folder):
    with DataFile(site.path) as data_file:
        place = list(data_file.forward())[1].records
    with open(site.path, 'rb') as data_file:
        whole = data_file.read()
    with open(site.path, 'wb') as data_file:
        data_file.write(whole[:place + 24] + b'\xff' + whole[place + 25:])
    with pytest.raises(Damaged):
        export(site.path, EVERYTHING, str(folder))
    assert not folder.check()

    with open(site.path, 'wb') as data_file:
        data_file.write(whole)
    export(site.path, EVERYTHING, str(folder))
    assert ['tail.fs', 'tail.json'] == sorted(os.listdir(str(folder)))
