"""A tree's items come in its order, and a tree in which lookups fail is not taken for a good one."""
import pytest
from BTrees.IOBTree import IOBTree
from BTrees.OOBTree import OOTreeSet
from ZODB import DB
from ZODB.MappingStorage import MappingStorage

from decoding import Damage, Record, Reference, decode, items

TREE, BUCKET = 'BTrees.IOBTree.IOBTree', 'BTrees.IOBTree.IOBucket'


def to(oid):
    return Reference(oid, BUCKET, '')


def good():
    """A tree of two buckets, as records by their oids."""
    return {
        'tree': Record(TREE, ((to('a'), 5, to('b')), to('a'))),
        'a': Record(BUCKET, ((1, 'x', 3, 'y'), to('b'))),
        'b': Record(BUCKET, ((5, 'z'),)),
    }


def items_of(**changed):
    records = dict(good(), **changed)
    return items(records.get, records['tree'])


def test_the_items_of_buckets_follow_each_other():
    assert [(1, 'x'), (3, 'y'), (5, 'z')] == items_of()


@pytest.mark.parametrize('changed, told', [
    (dict(a=Record(BUCKET, ((1, 'x', 3, 'y'),))), 'chained'),
    (dict(b=Record(BUCKET, ((5, 'z'), to('a')))), 'chained'),
    (dict(a=Record(BUCKET, ((3, 'x', 1, 'y'), to('b')))), 'out of order'),
    (dict(a=Record(BUCKET, ((1, 'x', 1, 'y'), to('b')))), 'out of order'),
    (dict(a=Record(BUCKET, ((1, 'x', 6, 'y'), to('b')))), 'not where the tree looks for it'),
    (dict(b=Record(BUCKET, ((4, 'z'),))), 'not where the tree looks for it'),
    (dict(b=Record(BUCKET, ((),))), 'an empty bucket'),
    (dict(tree=Record(TREE, ((to('a'), 5, to('b')), to('b')))), 'begins with another bucket'),
    (dict(b=None), 'lacks a bucket'),
    (dict(b=Record(TREE, None)), 'an empty part'),
])
def test_a_tree_in_which_lookups_fail_is_damaged(changed, told):
    with pytest.raises(Damage) as damage:
        items_of(**changed)
    assert told in str(damage.value)


@pytest.mark.parametrize('size', [0, 1, 30, 1000, 20000])
def test_trees_of_any_size_are_read_as_they_were_written(size):
    storage = MappingStorage()
    connection = DB(storage).open()
    root = connection.root()
    root['map'] = IOBTree([(number, -number) for number in range(size)])
    root['set'] = OOTreeSet('%06d' % number for number in range(size))
    connection.transaction_manager.commit()
    found = [items(lambda oid: decode(storage.load(oid)[0]),
                   decode(storage.load(root[name]._p_oid)[0])) for name in ('map', 'set')]
    assert [(number, -number) for number in range(size)] == found[0]
    assert [('%06d' % number, None) for number in range(size)] == found[1]
    connection.close()
