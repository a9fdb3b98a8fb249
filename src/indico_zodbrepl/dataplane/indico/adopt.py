"""Make the database of an existing Indico ready to be read from a read-only server.

usage: INDICO_CONF=... python -m indico_zodbrepl.dataplane.indico.adopt [--batch N]

Makes the plugin known and creates what Indico otherwise creates while it answers
its first GETs: for the whole site, then for each user, category and event with its
contributions.  Changes nothing else: no user, no right, no modification date.
Indico may run meanwhile.  May be interrupted and run again at any time:
existing objects are only read.  Tells its progress on standard error, prints
{"users": ..., "categories": ..., "conferences": ..., "contributions": ...,
"damaged": [...]}, how many of each were looked at and which could not be.

exit status: 0 done, 1 the storage is away or read-only, 2 wrong command line or
no indico.conf, 3 done but for damaged objects, 4 the database holds no Indico, 130 interrupted.
"""
from __future__ import absolute_import

import argparse
import json
import sys

from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, ReadOnlyError

from indico_zodbrepl.dataplane.indico import instance

BATCH = 100  # objects per transaction


def _positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError('%r is not a number from 1' % text)
    return int(text)


def _say(line):
    sys.stderr.write('adopt: %s\n' % line)


def main(argv=None):
    parser = argparse.ArgumentParser(
        usage='python -m indico_zodbrepl.dataplane.indico.adopt [--batch N]',
        description="Makes an existing Indico's database ready for a read-only server.")
    parser.add_argument('--batch', metavar='N', type=_positive, default=BATCH,
                        help='objects in one transaction (default: %(default)s)')
    options = parser.parse_args(argv)
    try:
        instance.require()
    except instance.Missing as error:
        _say(str(error))
        return 2
    from indico.core.db import DBMgr

    from indico_zodbrepl.dataplane.indico.adoption import Adoption, NoIndico
    try:
        manager = DBMgr.getInstance()
        adoption = Adoption(manager, options.batch, _say)
        try:
            adoption.run()
        finally:
            manager._db.close()
    except NoIndico:
        _say('the database holds no Indico; for a new one: firstrun')
        return 4
    except (ClientDisconnected, ConflictError, ReadOnlyError) as error:
        _say('not finished: %s: %s; run it again' % (type(error).__name__, error))
        return 1
    except KeyboardInterrupt:
        _say('interrupted; run it again')
        return 130
    print(json.dumps(dict(adoption.counts, damaged=adoption.damaged), sort_keys=True))
    return 3 if adoption.damaged else 0


if __name__ == '__main__':
    sys.exit(main())
