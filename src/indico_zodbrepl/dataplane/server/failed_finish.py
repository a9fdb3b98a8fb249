"""End a server whose data file has closed itself.

FileStorage closes its file when it can't finish a transaction, for example because the disk could
not synchronise it.  It is unknown then whether the transaction is on the disk.  A server that went
on would fail each call, and follow nobody.  A new process writes it again: see `last_transaction`.
"""
from __future__ import absolute_import

import logging
import os

from ZODB.FileStorage import FileStorage

from indico_zodbrepl.dataplane.server.status import inside

logger = logging.getLogger('zodbrepl.server')


def end_after_it(storage, status):
    """End this process when a transaction of a storage can't be finished.

    Args:
        storage: zc.zrs layers may be around it; without a FileStorage inside nothing is done.
        status: exit status.
    """
    base = inside(storage)
    if not isinstance(base, FileStorage):
        return
    finish = base._finish

    def watched(*arguments):
        try:
            return finish(*arguments)
        except Exception as error:
            logger.critical('a transaction could not be finished (%s), and %s is closed; this '
                            'server ends, so that a new one writes it to the disk again',
                            error, base.getName())
            logging.shutdown()
            os._exit(status)

    base._finish = watched
