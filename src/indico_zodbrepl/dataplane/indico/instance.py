"""An Indico in this process, built in the background when it is first needed.

Indico must not be built while a module is imported: the import lock of Python
2 and ZEO's I/O thread, which imports as well, then wait for each other
forever.  So a thread builds it, outside of every import, and callers wait for
that thread for a limited time.
"""
from __future__ import absolute_import

import logging
import os
import threading

from urlparse import urlparse
from ZEO.Exceptions import ClientDisconnected
from ZODB.interfaces import IBlobStorage

from indico_zodbrepl.dataplane.indico.uploaded import UploadedFiles, remove_leftovers

log = logging.getLogger(__name__)


class NotSetUp(Exception):
    """The database holds no Indico yet."""


class IndicoInstance(object):
    """Builds Indico's WSGI application once a process; thread-safe.

    A failed build is retried when Indico is needed the next time.  After a
    fork the child starts from scratch.

    Attributes:
        db: the `ZODB.DB` once it is open, else None.
        application: the WSGI application once it is built, else None.
        failure: why the last attempt failed, an exception, or None.
        uploaded: the `UploadedFiles` once it is built, else None.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._begin_anew()

    def _begin_anew(self):
        self._pid = os.getpid()
        self._attempt = None
        self.db = None
        self.application = None
        self.failure = None
        self.uploaded = None

    def want(self):
        """Start to build Indico unless it is built or being built.

        Returns: a `threading.Event`, set when the current attempt is over.
        """
        with self._lock:
            if self._pid != os.getpid():
                self._begin_anew()
            if self._attempt is None or (
                    self._attempt.is_set() and self.application is None):
                self._attempt = threading.Event()
                thread = threading.Thread(
                    target=self._build, args=(self._attempt,),
                    name='building Indico')
                thread.setDaemon(True)
                thread.start()
            return self._attempt

    def _build(self, attempt):
        try:
            self.application = self._make_application()
            self.failure = None
        except (ClientDisconnected, NotSetUp) as error:
            if str(error) != str(self.failure):
                log.warning('Indico cannot start yet: %s', error)
            self.failure = error
        except Exception as error:  # raised again in the threads that need Indico
            log.exception('Indico cannot start')
            self.failure = error
        finally:
            attempt.set()

    def _make_application(self):
        # All imports come before the database is opened.
        from indico.core.config import Config
        from indico.core.db import DBMgr, files
        from indico.web.flask.app import make_app
        from werkzeug.exceptions import NotFound
        from werkzeug.wsgi import DispatcherMiddleware

        from indico_zodbrepl.dataplane.indico import assets

        manager = DBMgr.getInstance()
        self.db = manager._db
        manager.startRequest()
        try:
            if 'rootCategory' not in manager.getDBConnection().root():
                raise NotSetUp('the database holds no Indico; to begin one: '
                               'bin/indico-python -m indico_zodbrepl.dataplane.indico.firstrun')
            assets.build()
            indico = make_app()
            # Werkzeug 0.9 would sort the rules during the first request; meanwhile other threads
            # find none of them and answer 404.
            indico.url_map.update()
            # of a ZEO client without a cache of blobs it is None
            if IBlobStorage.providedBy(self.db.storage) and (
                    getattr(self.db.storage, 'fshelper', True) is not None):
                remove_leftovers(self.db.storage.temporaryDirectory())
            config = Config.getInstance()
            self.uploaded = UploadedFiles(
                self.db, config.getFileRepository() == 'blobs',
                os.path.join(config.getUploadedFilesTempDir(), files.UNAVAILABLE_NAME))
            path = urlparse(config.getBaseURL()).path
            return DispatcherMiddleware(NotFound(), {path.rstrip('/'): indico})
        finally:
            manager.endRequest(False)


class Missing(Exception):
    """The indico.conf is missing; the text names it."""


def require():
    """Raise Missing unless INDICO_CONF names a file that can be read."""
    path = os.environ.get('INDICO_CONF', '')
    try:
        open(path).close()
    except IOError as error:
        raise Missing(
            'no indico.conf: INDICO_CONF is %s; bin/zodbrepl up writes one for each '
            'instance, var/etc/INSTANCE/indico.conf'
            % ('%s: %s' % (path, error.strerror) if path else 'not set'))
