"""The comparison of two databases finds each kind of difference, and nothing else."""
import datetime
import random

import pytest
import pytz
import transaction
from BTrees.IOBTree import IOBTree
from BTrees.OOBTree import OOBTree, OOTreeSet
from persistent import Persistent
from persistent.list import PersistentList
from ZODB import DB
from ZODB.MappingStorage import MappingStorage

from graphs import Database, describe, differences, unreachable

BEGAN = datetime.datetime(2026, 1, 1, 12)
ENDED = datetime.datetime(2026, 1, 1, 13)
MANY = 500               # items that fill more than one level of a BTree's buckets


class Event(Persistent):
    """Something with attributes, and an order of its own."""

    def __init__(self, number, **attributes):
        self.id = str(number)
        self.__dict__.update(attributes)

    def __cmp__(self, other):
        return cmp(self.id, other.id)


class Meeting(Event):
    """Another class with the same state."""


class Place(object):
    """A part of an event that has no record of its own."""

    def __init__(self, name):
        self.name = name


def at(hour, minute=0, zone=pytz.utc):
    return datetime.datetime(2026, 1, 1, hour, minute, tzinfo=zone)


def graph():
    """Objects of all kinds that Indico uses; tests change something of it."""
    first = Event(1, title='One', room=Place('Hall'), tags=['a', 'b'], start=at(8),
                  _creationDS=at(12, 10), zone=pytz.timezone('Europe/Zurich'), count=3)
    second = Event(2, title='Two', friend=first, places={'x': Place('X'), 'y': Place('Y')})
    return {
        'events': OOBTree({'1': first, '2': second}),
        'sorted': OOTreeSet([first, second]),
        'many': IOBTree([(number, str(number)) for number in range(MANY)]),
        'list': PersistentList([first, second, 'text']),
    }


def database(objects, prepare=lambda connection: None):
    storage = MappingStorage()
    connection = DB(storage).open(transaction.TransactionManager())
    prepare(connection)
    connection.root().update(objects)
    connection.transaction_manager.commit()
    return Database(storage, BEGAN, ENDED)


def found(change, **options):
    """What is told of a graph and another one to which `change` was done."""
    changed = graph()
    change(changed)
    return [describe(each)
            for each in differences(database(graph()), database(changed, **options))]


def test_equal_graphs_have_no_differences():
    assert [] == found(lambda objects: None)


def test_object_ids_mean_nothing():
    def waste(connection):
        for _ in range(7):
            connection.new_oid()
    assert [] == found(lambda objects: None, prepare=waste)


def test_where_a_tree_divides_its_buckets_means_nothing():
    def refill(objects):
        numbers = list(range(3 * MANY))
        random.Random(1).shuffle(numbers)
        objects['many'].clear()
        for number in numbers:
            objects['many'][number] = str(number)
        for number in range(MANY, 3 * MANY):
            del objects['many'][number]
    assert [] == found(refill)


def test_the_order_of_a_dictionary_means_nothing():
    def reorder(objects):
        crowded = {}
        for number in range(99):
            crowded['filler %d' % number] = None
        crowded.update(y=Place('Y'), x=Place('X'))
        for number in range(99):
            del crowded['filler %d' % number]
        objects['events']['2'].places = crowded
    assert [] == found(reorder)


def test_the_clock_may_differ_while_the_database_was_filled():
    assert [] == found(lambda objects: setattr(
        objects['events']['1'], '_creationDS', at(12, 59)))


def one(change, **options):
    """The only difference that is told."""
    told, = found(change, **options)
    return told


@pytest.mark.parametrize('name, value, told', [
    ('title', 'Uno', "'One' in the one, 'Uno' in the other"),
    ('title', u'One', "a str in the one, a unicode in the other: 'One' and u'One'"),
    ('count', 3L, 'a int in the one, a long in the other: 3 and 3L'),
    ('count', True, 'a int in the one, a bool in the other: 3 and True'),
    ('title', None, "a str in the one, a NoneType in the other: 'One' and None"),
    ('start', at(8, 30), '2026-01-01 08:00:00 in the one, 2026-01-01 08:30:00 in the other'),
    ('_creationDS', at(14), '2026-01-01 12:10:00 in the one, 2026-01-01 14:00:00 in the other'),
    ('tags', ['b', 'a'], None),
    ('tags', ['a'], "2 items in the one, 1 in the other: ['a', 'b'] and ['a']"),
    ('tags', ('a', 'b'), None),
    ('zone', pytz.timezone('Europe/Paris'), None),
    ('start', datetime.datetime(2026, 1, 1, 8), None),
])
def test_another_value_of_an_attribute_is_reported(name, value, told):
    said = found(lambda objects: setattr(objects['events']['1'], name, value))
    assert said
    for line in said:
        assert line.startswith("root.data['events']['1'].%s" % name)
        assert '(test_graphs.Event, %s): ' % name in line
    if told:
        assert said[0].endswith(': ' + told)


def test_an_attribute_that_only_one_has_is_reported():
    assert "root.data['events']['1'].extra (test_graphs.Event, extra): only the other has it: 1" \
        == one(lambda objects: setattr(objects['events']['1'], 'extra', 1))
    assert "root.data['events']['1'].count (test_graphs.Event, count): only the one has it: 3" \
        == one(lambda objects: delattr(objects['events']['1'], 'count'))


def test_a_part_without_a_record_is_looked_into():
    assert ("root.data['events']['2'].places['y'].name (test_graphs.Event, name): "
            "'Y' in the one, 'Z' in the other") == one(
                lambda objects: setattr(objects['events']['2'].places['y'], 'name', 'Z'))


def test_another_class_is_reported():
    def turn(objects):
        objects['events']['1'].__class__ = Meeting
    said = found(turn)
    assert "root.data['events']['1'] (test_graphs.Event, ): in the other it is a " \
        'test_graphs.Meeting' in said


def test_another_class_in_a_reference_is_reported_though_the_object_is_the_same():
    class Stale(object):
        """Names another class in the references to one record."""

        def __init__(self, storage):
            self._storage = storage

        def load(self, oid, version):
            data, serial = self._storage.load(oid, version)
            return data.replace('ctest_graphs\nEvent\n', 'ctest_graphs\nMeeting\n') \
                if 'sorted' not in data and 'OOBTree' in data else data, serial
    pair = database(graph()), database(graph())
    pair[1].storage = Stale(pair[1].storage)
    said = [describe(each) for each in differences(*pair)]
    assert said
    assert all('another reference' in line for line in said)


def test_an_item_that_only_one_has_is_reported():
    assert "root.data['many'][99999] (BTrees.IOBTree.IOBTree, ): only the other has it" == one(
        lambda objects: objects['many'].update({99999: 'x'}))
    assert "root.data['many'][17] (BTrees.IOBTree.IOBTree, ): only the one has it" == one(
        lambda objects: objects['many'].pop(17))


def test_an_object_that_an_index_lacks_is_reported():
    assert ("root.data['sorted'][Event '2'] (BTrees.OOBTree.OOTreeSet, ): only the one has it"
            == one(lambda objects: objects['sorted'].remove(objects['events']['2'])))


def test_another_order_in_a_list_is_reported():
    def turn(objects):
        objects['list'].reverse()
    said = found(turn)
    assert said
    assert all(line.startswith("root.data['list']") for line in said)


def test_another_order_in_an_index_of_objects_is_reported():
    """As an index of events is that was filled by number, while Indico compares their ids."""
    def disorder(objects):
        tree = OOTreeSet()
        tree.__setstate__(((((objects['events']['2'], objects['events']['1']),),),))
        objects['sorted'] = tree
    assert ("root.data['sorted'] (BTrees.OOBTree.OOTreeSet, ): the order is "
            "[\"Event '1'\", \"Event '2'\"] in the one and [\"Event '2'\", \"Event '1'\"] in the "
            'other') == one(disorder)


def test_a_reference_to_another_object_that_looks_the_same_is_reported():
    def copy(objects):
        twin = Event(1)
        twin.__dict__.update(objects['events']['1'].__dict__)
        objects['events']['2'].friend = twin
    told = 'it leads to another object than where that was met first'
    said = found(copy)
    assert "root.data['events']['2'].friend (test_graphs.Event, friend): " + told in said


class Lost(object):
    """A storage without one of its records."""

    def __init__(self, storage, oid):
        self._storage, self._oid = storage, oid

    def load(self, oid, version):
        if oid == self._oid:
            raise KeyError(oid)
        return self._storage.load(oid, version)


def test_an_object_that_is_missing_is_reported():
    objects = graph()
    pair = database(graph()), database(objects)
    pair[1].storage = Lost(pair[1].storage, objects['events']['2']._p_oid)
    said = [describe(each) for each in differences(*pair)]
    assert "root.data['events']['2'] (test_graphs.Event, ): the object is missing in the other" \
        in said


def test_a_tree_whose_parts_do_not_fit_is_reported():
    def cut(objects):
        children, first = objects['many'].__getstate__()
        objects['many'] = IOBTree()
        objects['many'].__setstate__((children[:-2], first))
    assert ("root.data['many'] (BTrees.IOBTree.IOBTree, ): the tree of the other is damaged: its "
            'buckets are chained otherwise than the tree holds them') == one(cut)


def test_records_that_nothing_leads_to_are_counted_by_class(tmpdir):
    from ZODB.FileStorage import FileStorage
    storage = FileStorage(str(tmpdir.join('Data.fs')))
    connection = DB(storage).open()
    connection.root()['event'] = Event(1)
    connection.root()['tree'] = OOTreeSet(range(MANY))
    transaction.commit()
    assert {} == unreachable(storage)
    del connection.root()['event']
    transaction.commit()
    assert {'test_graphs.Event': 1} == unreachable(storage)
    connection.close()
    storage.close()
