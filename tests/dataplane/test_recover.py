"""Lost transactions made again: on top of what the database has now, or not at all."""
import json
import os
import pickle
import shutil

import pytest
import transaction
import ZODB
from BTrees.Length import Length
from BTrees.OOBTree import OOBTree
from persistent.mapping import PersistentMapping
from ZODB.FileStorage import FileStorage
from ZODB.utils import p64, u64

from data_files import restore
from indico_zodbrepl.dataplane.recover import program, records
from indico_zodbrepl.dataplane.datafs.export import export


class History(object):
    """A Data.fs that is changed, and a copy of it that was left behind before.

    Args:
        folder: py.path.local.
    """

    def __init__(self, folder):
        self.folder = folder
        self.path = str(folder.join('now.fs'))
        self.conf = str(folder.join('now.conf'))
        with open(self.conf, 'w') as conf:
            conf.write('<filestorage>\n  path %s\n</filestorage>\n' % self.path)
        self.lost = str(folder.join('lost.fs'))
        self.common = self.change(_fill)
        shutil.copy(self.path, self.lost)

    def change(self, *steps, **options):
        """Commits each step, a function of the root object; returns the last one's id."""
        db = ZODB.DB(FileStorage(options.get('path', self.path)))
        manager = transaction.TransactionManager()
        root = db.open(manager).root()
        try:
            for step in steps:
                manager.get().note(unicode(step.__name__))
                step(root)
                manager.commit()
            return db.lastTransaction()
        finally:
            manager.abort()
            db.close()

    def lose(self, *steps):
        """As `change`, on the copy; returns the path of the exported tail."""
        self.change(*steps, path=self.lost)
        tail = str(self.folder.join('tail'))
        export(self.lost, self.common, tail)
        return tail

    def read(self, reader):
        """What a function of the root object returns."""
        db = ZODB.DB(FileStorage(self.path, read_only=True))
        try:
            return reader(db.open().root())
        finally:
            db.close()

    def last(self):
        """The last transaction, as (user, description), and how many there are."""
        storage = FileStorage(self.path, read_only=True)
        try:
            transactions = list(storage.iterator())
            return (transactions[-1].user, transactions[-1].description), len(transactions)
        finally:
            storage.close()


def _fill(root):
    root['notes'] = PersistentMapping(text=u'first', other=u'first')
    root['talks'] = OOBTree({name: PersistentMapping(title=name.upper())
                              for name in (u'a', u'm')})
    root['count'] = Length(2)
    root['second'] = PersistentMapping(text=u'second')


def edit(root):
    root['notes']['text'] = u'lost'


def edit_second(root):
    root['second']['text'] = u'lost too'


def add_talk(root):
    root['talks']['lost'] = PersistentMapping(
        title=u'Lost', speaker=PersistentMapping(name=u'Ann'))
    root['count'].change(1)


def edit_lost_talk(root):
    root['talks']['lost']['title'] = u'Lost and edited'


def add_other_talk(root):
    root['talks']['kept'] = PersistentMapping(
        title=u'Kept', speaker=PersistentMapping(name=u'Bob'))
    root['count'].change(1)


def edit_otherwise(root):
    root['notes']['text'] = u'kept'


@pytest.fixture
def history(tmpdir):
    return History(tmpdir)


@pytest.fixture
def run(history, capsys):
    """Runs the program; returns its exit status and what it printed, None if nothing."""
    def run(command, tail, *more):
        capsys.readouterr()
        status = program.main([command, tail, history.conf] + list(more))
        output = capsys.readouterr().out
        return status, json.loads(output) if output else None
    return run


def record(state):
    """A record of an object with that state."""
    return pickle.dumps(PersistentMapping, 1) + pickle.dumps(state, 1)


def outcomes(said):
    return [each['outcome'] for each in said['transactions']]


def changed(said, index=0):
    return [each for each in said['transactions'][index]['objects'] if each['relation'] != 'new']


def test_a_change_of_what_nobody_changed_since_is_made_again(history, run):
    tail = history.lose(edit)
    history.change(add_other_talk)
    status, said = run('apply', tail, 'all', '--user', 'olga')
    assert (0, ['applies'], 1) == (status, outcomes(said), said['objects_written'])
    assert u'lost' == history.read(lambda root: root['notes']['text'])
    lost = said['transactions'][0]['tid']
    assert ('olga', 'recovered from lost tail tail, transaction %s' % lost) == history.last()[0]


def test_a_change_is_shown_field_by_field_and_nothing_is_written(history, run):
    tail = history.lose(edit)
    before = history.last()
    status, said = run('show', tail)
    (shown,) = changed(said)
    assert ('unchanged', 'applies') == (shown['relation'], shown['outcome'])
    (difference,) = shown['differences']
    assert 'first' in difference['old']
    assert 'lost' in difference['new']
    assert (0, None, before) == (status, said['written'], history.last())


@pytest.mark.parametrize('field, value', [
    ('accessKey', 'sesame'), ('_accessKey', 'sesame'), ('_modifKey', 'sesame'),
    ('password', 'sesame'), ('_roomBookingDBPassword', 'sesame'), ('_moderatorPin', '4711'),
    ('_signKey', 'sesame'), ('_key', 'sesame'), ('key', 'sesame'), ('_APIToken', 'sesame'),
    ('_secret', 'sesame'), ('_checkInUUID', 'sesame'), ('_randomId', 'sesame'),
    ('_lastQuery', 'ak=sesame'), ('_PluginOption__value', 'sesame'),
    ('_bookingParams', {'title': 'x', 'accessPassword': 'sesame'}),
    ('rooms', [{'inner': ({'pin': 'sesame'},)}]),
    ('data', ['0b1c7a30-0a64-4cf1-8d0a-0b62a9b7b1c4']),
    ('algorithm', '$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW'),
    ('0b1c7a30-0a64-4cf1-8d0a-0b62a9b7b1c4', 'x'),
])
def test_a_protected_value_is_marked_wherever_it_is_in_the_field(history, run, field, value):
    def protect(root):
        root['notes'][field] = value
    tail = history.lose(protect)
    (difference,) = changed(run('show', tail)[1])[0]['differences']
    assert difference['protected']
    (found,) = records.differences(None, record({field: value}))
    assert found['protected']


@pytest.mark.parametrize('field, value', [
    ('title', 'Keys and passwords'), ('keywords', 'x'), ('_contactInfo', 'x'),
    ('_modificationDS', 'x'), ('room', ['4-3', {'name': 'Main'}])])
def test_other_values_are_not_marked(field, value):
    (found,) = records.differences(None, record({field: value}))
    assert not found['protected']


def test_a_state_with_many_references_to_itself_is_read_once():
    inner = []
    inner += [inner] * 1000
    nested = [inner]
    for _ in range(100):
        nested = [nested, nested]
    (found,) = records.differences(None, record({'x': nested}))
    assert not found['protected']
    nested[0].append({'pin': 4711})
    (found,) = records.differences(None, record({'x': nested}))
    assert found['protected']


def test_an_object_that_both_sides_changed_is_left_with_all_of_its_transaction(history, run):
    def edit_both(root):
        edit(root)
        edit_second(root)
    tail = history.lose(edit_both)
    history.change(edit_otherwise)
    before = history.last()
    status, said = run('apply', tail, 'all', '--user', 'olga')
    assert (program.NOTHING, ['conflicts'], before) == (status, outcomes(said), history.last())
    assert ['conflicts', 'applies'] == [each['outcome'] for each in changed(said)]
    assert 'changed on both sides' in changed(said)[0]['why']


def test_new_objects_get_oids_of_their_own_where_theirs_are_taken(history, run):
    tail = history.lose(add_talk)
    history.change(add_other_talk)
    status, said = run('apply', tail, 'all', '--user', 'olga')
    assert (0, ['applies']) == (status, outcomes(said))
    assert [(u'A', None), (u'Kept', u'Bob'), (u'Lost', u'Ann'), (u'M', None)] == history.read(
        lambda root: [(each['title'], each.get('speaker', {}).get('name'))
                      for each in root['talks'].values()])


def test_what_both_sides_added_to_a_tree_and_to_a_counter_is_merged(history, run):
    tail = history.lose(add_talk)
    history.change(add_other_talk)
    status, said = run('apply', tail, 'all', '--user', 'olga')
    assert ['merges', 'merges'] == [each['outcome'] for each in changed(said)]
    assert 4 == history.read(lambda root: root['count']())
    assert ['a', 'kept', 'lost', 'm'] == history.read(lambda root: list(root['talks']))


@pytest.mark.parametrize('picks', ['all', None])
def test_a_damaged_record_keeps_its_own_transaction_back_and_no_other(history, run, picks):
    tail = history.lose(edit, edit_second)
    path = os.path.join(tail, 'tail.fs')
    with open(path, 'r+b') as opened:
        opened.seek(opened.read().rindex(b'persistent.mapping') - 1)
        opened.write(4 * b'&')
    status, said = run('show', tail) if picks is None else run('apply', tail, picks, '--user', 'u')
    assert (0, ['applies', 'conflicts']) == (status, outcomes(said))
    assert ['its record is damaged'] == [
        each['why'] for each in said['transactions'][1]['objects']]


def test_the_same_key_on_both_sides_conflicts(history, run):
    tail = history.lose(add_talk)
    history.change(add_talk)
    status, said = run('apply', tail, 'all', '--user', 'olga')
    assert (program.NOTHING, ['conflicts']) == (status, outcomes(said))


def test_the_same_change_on_both_sides_of_an_object_that_can_not_be_merged_conflicts(
        history, run):
    tail = history.lose(edit)
    history.change(edit)
    assert ['conflicts'] == outcomes(run('show', tail)[1])


def test_a_transaction_on_top_of_one_that_is_left_is_left_too(history, run):
    tail = history.lose(add_talk, edit_lost_talk, edit_second)
    history.change(add_talk)
    status, said = run('apply', tail, 'all', '--user', 'olga')
    assert (0, ['conflicts', 'conflicts', 'applies']) == (status, outcomes(said))
    assert 'left out' in said['transactions'][1]['objects'][0]['why']
    assert u'lost too' == history.read(lambda root: root['second']['text'])


def test_transactions_on_top_of_each_other_are_made_again_as_one(history, run):
    tail = history.lose(add_talk, edit_lost_talk)
    _, count = history.last()
    assert ['applies', 'applies'] == outcomes(run('apply', tail, 'all', '--user', 'olga')[1])
    assert u'Lost and edited' == history.read(lambda root: root['talks']['lost']['title'])
    assert count + 1 == history.last()[1]


def test_one_picked_transaction_is_made_again_and_the_others_later(history, run):
    tail = history.lose(add_talk, edit_lost_talk)
    first, second = [each['tid'] for each in run('show', tail)[1]['transactions']]
    assert 0 == run('apply', tail, first, '--user', 'olga')[0]
    assert u'Lost' == history.read(lambda root: root['talks']['lost']['title'])
    history.change(add_other_talk)
    assert 0 == run('apply', tail, second, '--user', 'olga')[0]
    assert u'Lost and edited' == history.read(lambda root: root['talks']['lost']['title'])


def test_one_picked_object_brings_the_new_objects_that_it_refers_to(history, run):
    tail = history.lose(add_talk)
    (lost,) = run('show', tail)[1]['transactions']
    tree = next(each['oid'] for each in changed({'transactions': [lost]})
                if each['what'].endswith('OOBTree'))
    status, said = run('apply', tail, '%s:%s' % (lost['tid'], tree), '--user', 'olga')
    assert (0, 3) == (status, said['objects_written'])
    assert (u'Ann', 2) == history.read(
        lambda root: (root['talks']['lost']['speaker']['name'], root['count']()))


def test_nothing_is_recovered_twice(history, run):
    tail = history.lose(add_talk, edit)
    assert 0 == run('apply', tail, 'all', '--user', 'olga')[0]
    before = history.last()
    status, said = run('apply', tail, 'all', '--user', 'olga')
    assert (program.NOTHING, ['has it', 'has it']) == (status, outcomes(said))
    assert before == history.last()


def test_a_recovery_that_was_killed_after_it_had_written_is_not_repeated(history, run):
    tail = history.lose(add_talk)
    assert 0 == run('apply', tail, 'all', '--user', 'olga')[0]
    path = os.path.join(tail, 'salvaged.json')
    with open(path) as notes:
        noted = json.load(notes)
    noted['salvages'][0]['tid'] = None  # as it is between the write and the second note
    with open(path, 'w') as notes:
        json.dump(noted, notes)
    assert ['has it'] == outcomes(run('apply', tail, 'all', '--user', 'olga')[1])
    assert ['a', 'lost', 'm'] == history.read(lambda root: list(root['talks']))


def test_a_dry_run_says_what_would_be_written_and_writes_nothing(history, run):
    tail = history.lose(edit)
    before = history.last()
    status, said = run('apply', tail, 'all', '--user', 'olga', '--dry-run')
    assert (0, 1, None) == (status, said['objects_written'], said['written'])
    assert before == history.last()
    assert not os.path.exists(os.path.join(tail, 'salvaged.json'))


def test_an_object_that_the_database_no_longer_has_is_left(history, run):
    def remove(root):
        del root['second']
    tail = history.lose(edit_second)
    history.change(remove)
    _pack(history.path)
    (shown,) = changed(run('show', tail)[1])
    assert ('gone', 'conflicts') == (shown['relation'], shown['outcome'])


def test_what_both_sides_changed_is_left_when_packing_removed_what_it_was_before(history, run):
    tail = history.lose(add_talk)
    history.change(add_other_talk)
    _pack(history.path)
    assert {'conflicts'} == {each['outcome'] for each in changed(run('show', tail)[1])}


def test_a_class_that_can_not_be_imported_is_recovered_as_it_is(history, run):
    """As nothing of Indico is imported."""
    tail = history.lose(add_talk)
    path = os.path.join(tail, 'tail.fs')
    with open(path, 'rb') as data:
        content = data.read()
    assert content.count('persistent.mapping\nPersistentMapping') >= 2
    with open(path, 'wb') as data:
        data.write(content.replace('persistent.mapping\nPersistentMapping',
                                   'not_importable_xyz\nPersistentMapping'))
    assert 0 == run('apply', tail, 'all', '--user', 'olga')[0]
    with open(history.path, 'rb') as data:
        assert 'not_importable_xyz\nPersistentMapping' in data.read()


def test_what_the_tail_shares_with_the_database_is_not_made_again(history, run):
    """A tail cut at a private transaction in the middle holds common ones after it."""
    tail = history.lose(edit, add_talk)
    lost, now = FileStorage(history.lost, read_only=True), FileStorage(history.path)
    for each in lost.iterator():
        if each.tid == lost.lastTransaction():
            restore(now, each)
    now.close()
    lost.close()
    status, said = run('apply', tail, 'all', '--user', 'olga')
    assert (0, ['applies', 'has it']) == (status, outcomes(said))
    assert (u'lost', 3) == history.read(lambda root: (root['notes']['text'], root['count']()))


@pytest.mark.parametrize('pick', ['xyz', '00' * 8, 'all,all'])
def test_a_pick_that_the_tail_does_not_hold_is_refused(history, run, pick):
    assert (program.USAGE, None) == run(
        'apply', history.lose(edit), pick, '--user', 'olga')


def test_a_folder_without_a_tail_is_refused(history, run, tmpdir):
    assert (program.NO_TAIL, None) == run('show', str(tmpdir))


def _pack(path):
    storage = FileStorage(path)
    db = ZODB.DB(storage)
    db.pack()
    db.close()


def test_oids_of_new_objects_are_given_out_by_the_storage(history, run):
    """The lost ones might be given to a client that runs now."""
    tail = history.lose(add_talk)
    storage = FileStorage(history.path)
    reserved = max(u64(storage.new_oid()) for _ in range(5))
    storage.set_max_oid(p64(reserved))
    storage.close()
    assert 0 == run('apply', tail, 'all', '--user', 'olga')[0]
    assert history.read(lambda root: root['talks']['lost']['title']) == u'Lost'
