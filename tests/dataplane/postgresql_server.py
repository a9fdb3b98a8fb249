"""A private PostgreSQL server for tests: a folder and a port of its own, ended by process id."""
import errno
import getpass
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

import psycopg2

from processes import free_ports, wait_for, wait_until_stopped

PACKAGE = 'postgresql'
PROGRAMS = ('initdb', 'postgres')
# PostgreSQL refuses to run as root.
USER = 'postgres' if os.geteuid() == 0 else getpass.getuser()


def missing_program():
    """Returns the name of a program that is needed and not there, or None."""
    return next((name for name in PROGRAMS if program(name) is None), None)


def program(name):
    """Returns the path of a program of the newest PostgreSQL here, or None."""
    found = glob.glob('/usr/lib/postgresql/*/bin/' + name)
    return max(found, key=lambda path: float(path.split('/')[4])) if found else None


class PostgreSQLServer(object):
    """A server that runs and lets everybody of this machine in.

    Args:
        processes: the `Processes` that end it.
        original: a server that does not run; this one has its data and is read-only.
    """

    def __init__(self, processes, original=None):
        # Not below the tests' own folder, which is for their user alone.
        self._folder = tempfile.mkdtemp(prefix='zodbrepl-postgresql-')
        user = pwd.getpwnam(USER)
        os.chown(self._folder, user.pw_uid, user.pw_gid)
        self.port, = free_ports(1)
        self._options = ()
        if original is None:
            subprocess.check_output(
                self._as_user(program('initdb'), '--auth=trust', '--no-sync', '-D', self._folder),
                stderr=subprocess.STDOUT, cwd='/')
        else:
            subprocess.check_output(['cp', '-a', original._folder + '/.', self._folder])
            self._options = '-c', 'default_transaction_read_only=on'
        self._processes = processes
        self.restart()

    def restart(self):
        """Starts the server, which does not run."""
        self._process = self._processes.start(
            self._as_user(program('postgres'), '-D', self._folder, '-p', str(self.port),
                          '-c', 'listen_addresses=127.0.0.1',
                          '-c', 'unix_socket_directories=', *self._options), 'postgresql', self.port)
        wait_for(self._is_ready, 'the server at port %d' % self.port)

    def _is_ready(self):
        try:
            return self.execute('SELECT 1')
        except psycopg2.OperationalError:
            return False

    def close(self):
        """Ends it and removes its data."""
        self.resume()
        self.kill()
        shutil.rmtree(self._folder)

    def kill(self):
        self._signal(signal.SIGKILL)
        self._process.wait()

    def pause(self):
        self._signal(signal.SIGSTOP)
        wait_until_stopped(_descendants(self._process.pid))

    def resume(self):
        self._signal(signal.SIGCONT)

    def execute(self, statement):
        """Executes one statement as the administrator; returns its rows."""
        connection = psycopg2.connect(
            host='127.0.0.1', port=self.port, dbname='postgres', user=USER)
        try:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def make_database(self, name):
        """Makes an empty database, and a user of that name."""
        self.execute('CREATE USER %s' % name)
        self.execute('CREATE DATABASE %s OWNER %s' % (name, name))

    def section(self, name):
        """Returns the section that connects to such a database."""
        return ("<postgresql>\n driver psycopg2\n dsn dbname='%s' user='%s' password='secret' "
                "host='127.0.0.1' port='%d' connect_timeout='10'\n</postgresql>\n" % (
                    name, name, self.port))

    def disconnect(self, name):
        """Cuts all connections of a user."""
        self.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                     "WHERE usename = '%s'" % name)

    @staticmethod
    def at_the_end_of_a_commit(driver, action):
        """Has `action()` called just before the statement that saves, and commits, is sent."""
        execute = driver.execute_multiple_statement_with_hidden_commit

        def act_and_execute(*args):
            action()
            return execute(*args)
        driver.execute_multiple_statement_with_hidden_commit = act_and_execute

    @staticmethod
    def _as_user(*command):
        if USER == getpass.getuser():
            return list(command)
        return ['setpriv', '--reuid', USER, '--regid', USER, '--clear-groups'] + list(command)

    def _signal(self, number):
        for pid in _descendants(self._process.pid):
            try:
                os.kill(pid, number)
            except OSError as error:
                if error.errno != errno.ESRCH:
                    raise


def _descendants(pid):
    found = [pid]
    for task in glob.glob('/proc/%d/task/*/children' % pid):
        with open(task) as children:
            for child in children.read().split():
                found += _descendants(int(child))
    return found
