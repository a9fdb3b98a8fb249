"""Create the objects of a library of records, or run one query over them, and time it.

    python -m indico_zodbrepl.dataplane.benchmarks.phases ZODB_CONF PHASE [--scale S] [--create]

PHASE is `create`, or one of `phases_queries.QUERIES`: over what `create` made before, with the
same scale, with empty caches.  The answer is a JSON object in the last line; a query with a wrong
result fails.
"""
import argparse
import time

import transaction

from indico_zodbrepl.dataplane.benchmarks.counting import counted
from indico_zodbrepl.dataplane.benchmarks.phases_library import Library, answer_of
from indico_zodbrepl.dataplane.benchmarks.phases_model import converted
from indico_zodbrepl.dataplane.benchmarks.phases_queries import QUERIES
from indico_zodbrepl.dataplane.benchmarks.programs import Caller, opened

KEY = 'zodbrepl-bench-phases'
CACHE = 1000000  # objects: all stay in the connection's cache


class WrongResult(Exception):
    """A query's result differs from the library's."""


def main(arguments=None):
    options = _parser().parse_args(arguments)
    caller = Caller()
    library = Library(options.scale)
    db = opened(options.configuration, CACHE)
    try:
        if options.phase == 'create':
            found = create(db, library)
        else:
            if options.create:
                create(db, library)
            found = query(db, library, options.phase)
    finally:
        transaction.abort()
        db.close()
    caller.answer(found)


def create(db, library):
    """Replace the objects by new ones; time creation and commit separately.

    Returns a dict: create_seconds, commit_seconds, objects, records and stored_bytes.
    Raises WrongResult.
    """
    transaction.begin()
    connection = db.open()
    root = connection.root()
    root.pop(KEY, None)
    with counted(connection) as (counting, _):
        counting.reset()
        begun = time.time()
        root[KEY] = converted(library)
        created = time.time()
        transaction.commit()
        committed = time.time()
        records, stored_bytes = counting.stores, counting.stored_bytes
    connection.cacheMinimize()
    _require(library.sizes(), root[KEY].sizes())
    transaction.abort()
    connection.close()
    return {'create_seconds': created - begun, 'commit_seconds': committed - created,
            'objects': library.objects(), 'records': records, 'stored_bytes': stored_bytes}


def query(db, library, name):
    """Run a query with empty caches.

    Returns a dict: seconds, objects that it visited, records that it loaded, answer.
    Raises WrongResult.
    """
    db.cacheMinimize()
    connection = db.open()
    site = connection.root()[KEY]
    with counted(connection) as (counting, cache):
        connection.cacheMinimize()
        cache.empty()
        counting.reset()
        begun = time.time()
        values, objects = QUERIES[name](site, library)
        seconds = time.time() - begun
        records = counting.loads
    answer = answer_of(values)
    _require(library.answer(name), answer)
    return {'seconds': seconds, 'objects': objects, 'records': records, 'answer': answer}


def _require(expected, found):
    if expected != found:
        raise WrongResult('%s instead of %s' % (found, expected))


def _parser():
    parser = argparse.ArgumentParser(prog='phases')
    parser.add_argument('configuration')
    parser.add_argument('phase', choices=['create'] + sorted(QUERIES))
    parser.add_argument('--scale', type=float, default=1.0)
    parser.add_argument('--create', action='store_true', help='first, in this process')
    return parser


if __name__ == '__main__':
    main()
