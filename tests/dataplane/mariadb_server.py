"""A private MariaDB server for tests: a folder and a port of its own, ended by process id."""
import getpass
import os
import socket
import subprocess
from contextlib import closing

import pymysql

from processes import free_ports, wait_for

PACKAGE = 'mariadb-server'
PROGRAMS = ('mariadbd', 'mariadb-install-db')
# A server that starts removes temporary tables from its tmpdir, others' too.
OPTIONS = """\
[mariadbd]
datadir={folder}/data
tmpdir={folder}/tmp
socket={folder}/socket
pid-file={folder}/pid
bind-address=127.0.0.1
port={port}
skip-name-resolve
innodb-buffer-pool-size=32M
innodb-flush-log-at-timeout=2700
max-allowed-packet=256M
"""


def missing_program():
    """Returns the name of a program that is needed and not there, or None."""
    return next((name for name in PROGRAMS if program(name) is None), None)


def program(name):
    """Returns the path of a program, also in the folders of system programs, or None."""
    folders = os.environ['PATH'].split(os.pathsep) + ['/usr/local/sbin', '/usr/sbin', '/sbin']
    paths = (os.path.join(folder, name) for folder in folders)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


class MariaDBServer(object):
    """A server that runs; the user of the tests is its administrator over the socket.

    Args:
        folder: a py.path.local with room for a unix socket's path.
        processes: the `Processes` that end it.
        original: a server that does not run; this one has its data and is read-only.
    """

    def __init__(self, folder, processes, original=None):
        self.folder = folder
        self.port, = free_ports(1)
        options = folder.join('my.cnf')
        options.write(OPTIONS.format(folder=folder, port=self.port))
        folder.mkdir('tmp')
        user = getpass.getuser()
        if original is None:
            subprocess.check_output([
                program('mariadb-install-db'), '--no-defaults',
                '--datadir=%s' % folder.join('data'), '--tmpdir=%s' % folder.join('tmp'),
                '--skip-test-db', '--auth-root-authentication-method=socket',
                '--auth-root-socket-user=%s' % user, '--user=%s' % user],
                stderr=subprocess.STDOUT)
        else:
            original.folder.join('data').copy(folder.join('data'), mode=True)
            options.write('read-only=1\n', mode='a')
        self._processes = processes
        self._command = [program('mariadbd'), '--defaults-file=%s' % options, '--user=%s' % user]
        self.restart()

    def restart(self):
        """Starts the server, which does not run."""
        stale = self.folder.join('socket')  # of one that was killed
        if stale.check():
            stale.remove()
        self.process = self._processes.start(self._command, 'mariadb', self.port)
        wait_for(self._listens, 'the socket of %s' % self.folder)

    def _listens(self):
        """Whether a connection is accepted; the file is there a moment earlier."""
        with closing(socket.socket(socket.AF_UNIX)) as client:
            return client.connect_ex(str(self.folder.join('socket'))) == 0

    def close(self):
        """Lets it be ended with the others."""

    def pause(self):
        self.process.pause()

    def resume(self):
        self.process.resume()

    def kill(self):
        self.process.kill()

    def disconnect(self, name):
        """Cuts all connections of a user."""
        ids = self.execute(
            "SELECT id FROM information_schema.processlist WHERE user = '%s'" % name)
        self.execute(*['KILL %d' % each for each, in ids])

    @staticmethod
    def at_the_end_of_a_commit(driver, action):
        """Has `action()` called just before the statement that saves, and commits, is sent."""
        call = driver.callproc_multi_result

        def act_and_call(cursor, procedure, *args, **kwargs):
            if procedure.startswith('lock_and_choose_tid_and_move'):
                action()
            return call(cursor, procedure, *args, **kwargs)
        driver.callproc_multi_result = act_and_call

    def execute(self, *statements):
        """Executes statements as the administrator; returns the rows of the last one."""
        connection = pymysql.connect(unix_socket=str(self.folder.join('socket')),
                                     user=getpass.getuser(), autocommit=True)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return cursor.fetchall()
        finally:
            connection.close()

    def make_database(self, name):
        """Makes an empty database, and a user of that name, who has its name as password."""
        self.execute('CREATE DATABASE %s' % name,
                     "CREATE USER '%s'@'%%' IDENTIFIED BY '%s'" % (name, name),
                     "GRANT ALL ON %s.* TO '%s'@'%%'" % (name, name))

    def section(self, name, kind='mariadb', more=''):
        """Returns the section, of this kind, that connects to such a database."""
        return ('<%s>\n driver PyMySQL\n host 127.0.0.1\n port %d\n db %s\n user %s\n passwd %s\n'
                '%s</%s>\n' % (kind, self.port, name, name, name, more, kind))
