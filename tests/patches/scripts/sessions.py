"""Sessions in the database, below the requests: merging, ends, and removal of what has expired."""
import cPickle
import json
import threading
import uuid

from indico.core.db import DBMgr
from indico.core.db.expiring import ROOT_KEY, ExpiringValues
from indico.web.flask.session_store import SessionStore, merge

DAY = 86400


def merged():
    base = {'kept': 1, 'gone': 1, 'both': 1, 'set': {1, 2}, 'dict': {'a': 1, 'b': {'c': 1}}}
    mine = {'kept': 1, 'both': 2, 'set': {2, 3}, 'dict': {'a': 2, 'b': {'c': 1, 'd': 1}}, 'new': {'x': 1}}
    theirs = {'kept': 5, 'gone': 1, 'both': 3, 'set': {1, 2, 4}, 'dict': {'a': 1, 'b': {'c': 9}},
              'new': {'y': 1}, 'other': 1}
    result = merge(base, mine, theirs)
    return dict(result, set=sorted(result['set']))


def content(store, sid):
    return cPickle.loads(store.load(sid).content)


def at_the_same_time(sid, requests=12):
    """Let requests of one session, that all loaded it before, each save a key of its own; return the keys."""
    store = SessionStore()
    store.save(sid, None, {'user': 'ada'}, DAY)
    base = store.load(sid).content
    errors = []

    def save(number):
        try:
            SessionStore().save(sid, base, {'user': 'ada', number: True}, DAY)
        except Exception as error:
            errors.append(repr(error))
    threads = [threading.Thread(target=save, args=(number,)) for number in range(requests)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors + sorted(content(store, sid))


def ended(sid):
    """Return whether an ended session can be saved, and what is found of it afterwards."""
    store = SessionStore()
    store.save(sid, None, {'user': 'ada'}, DAY)
    base = store.load(sid).content
    store.delete(sid)
    return [store.save(sid, base, {'user': 'ada', 'late': 1}, DAY), store.load(sid)]


def number_of_values():
    with DBMgr.getInstance().ownTransaction() as root:
        return len(root[ROOT_KEY]['many'])


def expiry(count=300):
    """Return how many values there are after `count` insertions, and after as many later ones."""
    now = [1000.0]
    values = ExpiringValues('many', clock=lambda: now[0])
    numbers = []
    for _ in range(3):
        for _ in range(count):
            with DBMgr.getInstance().ownTransaction(u'test') as root:
                values.set(root, str(uuid.uuid4()), 'x', DAY)
        numbers.append(number_of_values())
        now[0] += 2 * DAY
    return numbers


def lifetime():
    """Return when a value expires that is set now, after a quarter, and after three quarters of its time."""
    now = [1000.0]
    values = ExpiringValues('one', clock=lambda: now[0])
    ends = []
    for passed in (0, 0.25, 0.75):
        now[0] = 1000.0 + passed * DAY
        with DBMgr.getInstance().ownTransaction(u'test') as root:
            values.set(root, 'key', 'value', DAY)
            ends.append(values.get(root, 'key').expires - 1000)
    now[0] += DAY
    with DBMgr.getInstance().ownTransaction() as root:
        return ends + [values.get(root, 'key')]


secret = str(uuid.uuid4())
report = {'merged': merged(), 'same time': at_the_same_time(secret), 'ended': ended('other'),
          'expiry': expiry(), 'lifetime': lifetime()}
DBMgr.getInstance().close()
with open('Data.fs') as data:
    report['secret in the file'] = secret in data.read()
print(json.dumps(report))
