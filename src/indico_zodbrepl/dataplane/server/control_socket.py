"""The socket beside a server's data file over which it takes orders."""
from __future__ import absolute_import

import json
import logging
import os
import socket
import threading
import time

logger = logging.getLogger('zodbrepl.control')

NAME = 'control.sock'

_LONGEST_REQUEST = 4096
# seconds for a peer to send its request and receive the answer
_PATIENCE = 10
# seconds until the next attempt after a failed accept
_PAUSE = 0.2


class Refused(Exception):
    """A request that was not executed; nothing has changed.

    Args:
        error: what could not be done, one line.
        detail: why.
    """

    def __init__(self, error, detail=''):
        Exception.__init__(self, error, detail)
        self.error = error
        self.detail = detail


class ControlSocket(object):
    """A socket that listens from its creation; each request has a thread.

    Args:
        folder: of the socket; that of an earlier server is replaced, so the
            caller must know that this server is gone.
        handle: called with a request (a dict); returns the answer (a dict) or
            raises Refused.
    """

    def __init__(self, folder, handle):
        self._handle = handle
        self._path = os.path.join(folder, NAME)
        if os.path.lexists(self._path):
            os.unlink(self._path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _bind(self._listener, folder)
        os.chmod(self._path, 0o600)
        self._listener.listen(64)  # each node of a status asks at once
        self._closed = False
        _start(self._accept, ())

    def close(self):
        """Take no more requests; running ones continue."""
        self._closed = True
        try:
            os.unlink(self._path)
        except OSError as error:
            # The server has more to do before it ends.
            logger.warning('%s was not removed: %s', self._path, error.strerror)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                peer, _ = self._listener.accept()
            except socket.error as error:
                if self._closed:
                    return
                # It works again, for example, once there are free file descriptors.
                logger.error('no control connection was taken: %s', error)
                time.sleep(_PAUSE)
                continue
            _start(self._serve, (peer,))

    def _serve(self, peer):
        try:
            peer.settimeout(_PATIENCE)
            line = peer.makefile('rb').readline(_LONGEST_REQUEST)
            if line:
                peer.sendall(json.dumps(self._answer(line)) + '\n')
        except socket.error as error:
            logger.warning('a control connection ended early: %s', error)
        finally:
            peer.close()

    def _answer(self, line):
        try:
            return dict(self._handle(_parsed(line)), ok=True)
        except Refused as refused:
            logger.warning('refused %s: %s: %s', line.strip(), refused.error,
                           refused.detail)
            return _failure(refused.error, refused.detail)
        except Exception as error:
            logger.exception('control request %r failed', line)
            return _failure('the server met an unforeseen error',
                            '%s: %s' % (type(error).__name__, error))


def _parsed(line):
    try:
        request = json.loads(line)
    except ValueError as error:
        raise Refused('the request is no JSON', str(error))
    if not isinstance(request, dict):
        raise Refused('the request is no JSON object', line.strip())
    return request


def _failure(error, detail):
    return {'ok': False, 'error': error, 'detail': detail}


def _bind(listener, folder):
    """Bind by a short path, because the folder's may be too long for a socket."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind('/proc/self/fd/%d/%s' % (descriptor, NAME))
    finally:
        os.close(descriptor)


def _start(target, args):
    thread = threading.Thread(target=target, args=args, name='control')
    thread.daemon = True
    thread.start()
