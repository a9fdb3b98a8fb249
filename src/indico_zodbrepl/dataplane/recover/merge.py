"""Merge three versions of a record by its class's own rule; only classes of BTrees and queues."""
from __future__ import absolute_import

import cStringIO
from ZODB._compat import PersistentPickler, PersistentUnpickler, _protocol
from ZODB.ConflictResolution import BadClass, PersistentReferenceFactory, persistent_id

from indico_zodbrepl.dataplane.recover.records import class_of

MERGING = ('BTrees.', 'zc.queue.')
# Classes that a collection may hold besides references and plain values.
HARMLESS = {'datetime': None, 'decimal': None, 'pytz': None,
            'copy_reg': ('_reconstructor',),
            '__builtin__': ('object', 'set', 'frozenset', 'complex', 'bytearray')}


class CanNotMerge(Exception):
    """Both sides changed a record, and they cannot be merged; the text says why."""


def merged(old, current, new):
    """Return a record with the changes of both sides since `old`.

    Raises CanNotMerge.
    """
    name = class_of(new)
    if not name.startswith(MERGING):
        if new == current:
            raise CanNotMerge('changed on both sides in the same way: one change, or the same '
                              'twice? a %s does not tell' % name)
        raise CanNotMerge('changed on both sides, and a %s can not be merged' % name)
    factory = PersistentReferenceFactory()
    try:
        (meta, lost), (_, base), (_, kept) = [_load(data, factory) for data in (new, old, current)]
        cls = meta[0] if isinstance(meta, tuple) else meta
        instance = cls.__new__(cls, *((meta[1] or ()) if isinstance(meta, tuple) else ()))
        state = instance._p_resolveConflict(base, kept, lost)
    except CanNotMerge:
        raise
    except Exception as error:  # the classes raise whatever they like: ConflictError, ValueError...
        raise CanNotMerge('both sides changed the same part of this %s (%s)'
                          % (name, type(error).__name__))
    output = cStringIO.StringIO()
    pickler = PersistentPickler(persistent_id, output, _protocol)
    pickler.dump(meta)
    pickler.dump(state)
    return output.getvalue()


def _load(data, factory):
    unpickler = PersistentUnpickler(_find_global, factory.persistent_load,
                                    cStringIO.StringIO(data))
    return unpickler.load(), unpickler.load()


def _find_global(module, name):
    """Return a class, or a `BadClass` for one that must not be loaded: fine in a reference."""
    names = HARMLESS.get(module, ())
    if not (module + '.').startswith(MERGING) and names is not None and name not in names:
        return BadClass(module, name)
    return getattr(__import__(module, {}, {}, [name]), name)
