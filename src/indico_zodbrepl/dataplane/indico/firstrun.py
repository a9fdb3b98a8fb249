"""Create an Indico in a new database; `adopt` is for a database with an existing Indico.

usage: INDICO_CONF=... python -m indico_zodbrepl.dataplane.indico.firstrun
           --admin-file FILE

FILE is JSON, readable by its owner only: login, password, email, first_name
and last_name of an administrator.  An existing user with that login stays unchanged.
Creates what is missing: root category, default conference, that administrator,
the list of plugins, and what Indico otherwise creates while it answers its
first GETs.  May be run again at any time.  Prints
{"created": whether the administrator is new, "login": ...}.

exit status: 0 done, 1 the storage is away or read-only, 2 wrong command line,
administrator file or indico.conf.
"""
from __future__ import absolute_import

import argparse
import json
import os
import stat
import sys

from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, ReadOnlyError

from indico_zodbrepl.dataplane.indico import instance

FIELDS = ('login', 'password', 'email', 'first_name', 'last_name')


class BadAdminFile(Exception):
    """The administrator file is invalid; the text says why."""


def read_admin_file(path):
    """Return the fields of the administrator as UTF-8 strings, or raise BadAdminFile."""
    try:
        with open(path) as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            content = json.load(opened)
    except (IOError, ValueError) as error:
        raise BadAdminFile('%s: %s' % (path, error))
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadAdminFile(
            '%s: holds a password, but others than its owner may use it '
            '(mode %o); chmod 600 it' % (path, mode))
    if not isinstance(content, dict):
        raise BadAdminFile('%s: not a JSON object' % path)
    admin = {}
    for field in FIELDS:
        value = content.get(field)
        if not isinstance(value, unicode) or not value.strip():
            raise BadAdminFile('%s: %s is missing' % (path, field))
        admin[field] = value.encode('utf-8')
    return admin


def main(argv=None):
    parser = argparse.ArgumentParser(
        usage='python -m indico_zodbrepl.dataplane.indico.firstrun --admin-file FILE',
        description='Makes a new database an Indico.')
    parser.add_argument(
        '--admin-file', metavar='FILE', required=True,
        help='JSON of mode 600: login, password, email, first_name, last_name')
    options = parser.parse_args(argv)
    try:
        instance.require()
        admin = read_admin_file(options.admin_file)
    except (instance.Missing, BadAdminFile) as error:
        sys.stderr.write('firstrun: %s\n' % error)
        return 2
    # In this order: MaKaC.errors cannot be imported before the rest of Indico.
    from indico_zodbrepl.dataplane.indico.set_up import run

    from MaKaC.errors import UserError
    try:
        created = run(admin)
    except UserError as error:  # another user has that e-mail address
        sys.stderr.write(
            'firstrun: %s: %s\n' % (options.admin_file, error.getMessage()))
        return 2
    except (ClientDisconnected, ConflictError, ReadOnlyError) as error:
        sys.stderr.write('firstrun: nothing was set up: %s: %s\n' % (
            type(error).__name__, error))
        return 1
    print(json.dumps({'created': created, 'login': admin['login']}))
    return 0


if __name__ == '__main__':
    sys.exit(main())
