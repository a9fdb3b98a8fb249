"""Access to benchmarks: administrators, and the cluster's control plane."""
from __future__ import absolute_import

import hmac
import os

from flask import request, session
from MaKaC.errors import AccessError

SECRET_HEADER = 'X-Zodbrepl-Secret'
SECRET_FILE = 'ZODBREPL_BENCH_SECRET'  # in the environment: the path of the file
CONTROL_PLANE = 'the control plane'


class Refused(AccessError):
    """Access is denied; the text says why."""

    def __init__(self, why):
        AccessError.__init__(self)
        self._why = why

    def __str__(self):
        return self._why


def requester(user):
    """Return the name of the requester; raise Refused.

    The control plane shows the cluster's secret in a header.  A person is
    logged in, is an administrator, and sends Indico's CSRF token.

    Args:
        user: the Avatar that is logged in, or None.
    """
    shown = request.headers.get(SECRET_HEADER)
    if shown is not None:
        if not _same(shown, _secret()):
            raise Refused('the secret is not that of this cluster')
        return CONTROL_PLANE
    if user is None or not user.isAdmin():
        raise Refused('for administrators only')
    if not _same(request.headers.get('X-CSRF-Token', ''), session.csrf_token):
        raise Refused('the header X-CSRF-Token is missing, or holds another token than the '
                      'session has')
    return user.getStraightFullName(upper=False)


def _same(shown, expected):
    """Compare in constant time; an empty text never matches."""
    return bool(expected) and hmac.compare_digest(_bytes(shown), _bytes(expected))


def _bytes(text):
    return text.encode('utf-8') if isinstance(text, unicode) else text


def _secret():
    path = os.environ.get(SECRET_FILE)
    if path is None:
        raise Refused('this Indico was started without %s' % SECRET_FILE)
    try:
        with open(path) as stream:
            if os.fstat(stream.fileno()).st_mode & 0o077:
                raise Refused('the file with the secret is not for its owner alone: mode 0600')
            return stream.read().strip()
    except IOError as error:
        raise Refused('the file with the secret can not be read: %s' % error.strerror)
