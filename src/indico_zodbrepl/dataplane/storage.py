"""The ZConfig section `<indicostorage>`: any ZODB storage, made ready for Indico.

    %import indico_zodbrepl.dataplane
    %import ZEO
    <indicostorage>
      <clientstorage>
        server 127.0.0.1:8111
        server 127.0.0.1:8121
        read-only-fallback true
        wait-timeout 10
      </clientstorage>
    </indicostorage>
"""
import functools
import sys
import time

import zope.interface
from ZEO.ClientStorage import ClientStorage
from ZODB.config import BaseConfig

from .fresh_oids import FreshOids
from .older_servers import accept_older_servers
from .translation import translated, translated_at_the_end
from .watchdog import Watchdog, what_is_missing
from .write_access import WriteAccess

# A client with read-only fallback takes whichever server answers first, and
# the writable one a moment later: a program that opens a storage and writes
# at once would meet a read-only one by chance.
SETTLE_LIMIT = 3.0  # seconds

# methods of a transaction that has begun
IN_A_TRANSACTION = ('store', 'storeBlob', 'deleteObject', 'undo', 'tpc_vote',
                    'checkCurrentSerialInTransaction')


class IndicoStorage(object):
    """Delegates to another storage and translates the errors of its methods.

    As thread-safe as the storage inside.  It provides whatever interfaces that
    one provides at the moment (ZEO clients learn theirs from the server).

    Args:
        base: the storage, open.
    """

    def __init__(self, base):
        self.base = base
        self._watchdog = None
        if isinstance(base, ClientStorage):
            accept_older_servers(base._server.client)
            self._watchdog = Watchdog(base)
            access = WriteAccess(base, self._watchdog)
            self.new_oid = _translating(
                access.beginning(FreshOids(base).new_oid))
            self.tpc_begin = _translating(access.beginning(base.tpc_begin))
            self.tpc_abort = _translating(access.aborting(base.tpc_abort))
            for name in IN_A_TRANSACTION:
                method = access.under_way(getattr(base, name))
                setattr(self, name, _translating(method))
        self.tpc_finish = _translating(base.tpc_finish, translated_at_the_end)

    @property
    def __providedBy__(self):
        return zope.interface.providedBy(self.base)

    def __getattr__(self, name):
        value = getattr(self.base, name)
        if name.startswith('_') or not callable(value):
            return value
        return _translating(value)

    def __len__(self):
        return len(self.base)

    def __repr__(self):
        return '<IndicoStorage of %r>' % self.base

    def new_instance(self):
        """For storages that are IMVCCStorage: one more, for one more connection."""
        return IndicoStorage(_translating(self.base.new_instance)())

    def close(self):
        if self._watchdog is not None:
            self._watchdog.close()
        self.base.close()


def _translating(method, translate=translated):
    @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
    def call(*args, **kwargs):
        try:
            return method(*args, **kwargs)
        except Exception as error:
            raise translate(error), None, sys.exc_info()[2]
    return call


class IndicoStorageSection(BaseConfig):
    """What ZConfig makes of `<indicostorage>`."""

    def open(self):
        """Opens the storage inside and waits a moment for it to be writable.

        Returns an `IndicoStorage`, on a read-only server if no other is there
        within three seconds.  Raises ClientDisconnected if no server answers
        in time.
        """
        storage = IndicoStorage(_translating(self.config.base.open)())
        if isinstance(storage.base, ClientStorage):
            deadline = time.time() + SETTLE_LIMIT
            while what_is_missing(storage.base) and time.time() < deadline:
                time.sleep(0.02)
        return storage
