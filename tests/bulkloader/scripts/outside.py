"""Has Indico make an event and prints as JSON what else it changed, by where that is in the root.

Argument: the `Parameters` as JSON. All events but the last are made beforehand, so that what
Indico makes once is there. A place is a key of the root and the classes on the way from there.
"""
import json
import sys
from collections import deque

import transaction
from bulkloader import model
from bulkloader.bulk.samples import heads
from bulkloader.database import connected, opened
from bulkloader.loading import _creator
from bulkloader.specification import Parameters, Specification
from indico_zodbrepl.dataplane.indico import prewarm
from MaKaC.conference import CategoryManager
from ZODB.serialize import referencesf

specification = Specification(Parameters(**json.loads(sys.argv[1])))
last = specification.parameters.conferences - 1


def made(root, index, categories):
    category = CategoryManager().getById(categories[specification.category_of(index)])
    return model.make_conference(category, _creator(root), specification.conference(index))


def records(storage):
    found, following = {}, None
    while True:
        oid, tid, data, following = storage.record_iternext(following)
        found[oid] = tid, data
        if following is None:
            return found


def reached(starts, within, references):
    found, left = set(), list(starts)
    while left:
        oid = left.pop()
        if oid in within and oid not in found:
            found.add(oid)
            left.extend(references[oid])
    return found


def places(root, event, references):
    """Returns {oid: place} of all objects that are reached without going through the event."""
    found, left = {}, deque((value._p_oid, (key, type(value).__name__))
                            for key, value in sorted(root.items()))
    while left:
        oid, place = left.popleft()
        if oid in found or oid in event:
            continue
        found[oid] = place
        for each in references[oid]:
            left.append((each, place + (type(root._p_jar.get(each)).__name__,)))
    return found


with opened() as manager:
    model.begin_batch()
    with connected(manager) as root:
        prewarm.prewarm_globals()
        categories = model.make_categories(
            CategoryManager().getRoot(), specification.category_tree())
        for index in range(last):
            made(root, index, categories)
        transaction.commit()
    before = records(manager._db.storage)
    model.begin_batch()
    with connected(manager) as root:
        event = [head._p_oid for _, head in heads(made(root, last, categories))
                 if transaction.commit() or True]
        after = records(manager._db.storage)
        references = dict((oid, referencesf(data)) for oid, (_, data) in after.items())
        new = set(after) - set(before)
        event = reached(event, new, references)
        named = places(root, event, references)
        changed = set(oid for oid in before if after[oid] != before[oid])
        print json.dumps({
            'changed': sorted(set(' '.join(named[oid]) for oid in changed if oid in named)),
            'new': sorted(set(' '.join(named[oid]) for oid in new - event)),
            'unnamed': len([oid for oid in changed if oid not in named])})
