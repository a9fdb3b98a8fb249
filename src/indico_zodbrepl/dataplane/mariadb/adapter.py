"""The ZConfig section `<mariadb>`, for use inside `<relstorage>`."""
from __future__ import absolute_import

import logging
import re

from relstorage.adapters.mysql import MySQLAdapter
from relstorage.adapters.mysql.schema import MySQLSchemaInstaller
from relstorage.adapters.mysql.stats import MySQLStats
from relstorage.config import MySQLAdapterFactory


class MariaDBAdapter(MySQLAdapter):
    """RelStorage's MySQL adapter with a schema installer and sizes for MariaDB.

    `connect_timeout` limits the whole connection set-up.

    As thread-safe as its base class.
    """

    def _create(self):
        super(MariaDBAdapter, self)._create()
        limit_connecting(self.driver)
        self.schema = MariaDBSchemaInstaller(
            driver=self.driver,
            connmanager=self.connmanager,
            runner=self.runner,
            keep_history=self.keep_history,
            version_detector=self.version_detector)
        self.stats = MariaDBStats(
            connmanager=self.connmanager,
            keep_history=self.keep_history)


class MariaDBAdapterFactory(MySQLAdapterFactory):
    """The factory that ZConfig creates from `<mariadb>`."""

    def create(self, options):
        """Return a `MariaDBAdapter` for RelStorage's `options`; connect to nothing."""
        keys = set(self.config.getSectionAttributes()) - {'driver'}
        given = {key: getattr(self.config, key) for key in keys}
        return MariaDBAdapter(options=options, **{
            key: value for key, value in given.items() if value is not None})


def limit_connecting(driver):
    """Make PyMySQL's `connect_timeout` cover the server's handshake and the login too.

    PyMySQL waits for them as long as for any statement, and the kernel accepts connections to a
    frozen server.  Other drivers limit all of it on their own.

    Args:
        driver: RelStorage's driver, used for all later connections.
    """
    if driver.MODULE_NAME == 'pymysql':
        driver._connect = _limited()


def _limited():
    from pymysql.connections import Connection

    class LimitedConnection(Connection):

        def connect(self, sock=None):
            limits = self._read_timeout, self._write_timeout
            self._read_timeout = self._write_timeout = self.connect_timeout
            try:
                Connection.connect(self, sock)
            finally:
                self._read_timeout, self._write_timeout = limits
    return LimitedConnection


# MySQL's name of a character set is the start of its collations' names.
_RENAMED = re.compile(r'^utf8mb3(?=_|$)')


class MariaDBSchemaInstaller(MySQLSchemaInstaller):
    """Creates the same tables and procedures on MariaDB as RelStorage does on MySQL."""

    # RelStorage reads the procedures from the folder of the class's module, unless they are in
    # here.  `MariaDBAdapter` first makes an installer of MySQL's class, which reads them into the
    # same dictionary.
    _PROCEDURES = MySQLSchemaInstaller._PROCEDURES

    CREATE_OBJECT_STATE_TMPLS = tuple(
        re.sub(r'\s+REFERENCES "transaction"', '', template)
        for template in MySQLSchemaInstaller.CREATE_OBJECT_STATE_TMPLS)

    def list_procedures(self, cursor):
        found = super(MariaDBSchemaInstaller, self).list_procedures(cursor)
        return {name: procedure._replace(
            character_set_client=_name_in_mysql(procedure.character_set_client),
            collation_connection=_name_in_mysql(procedure.collation_connection))
                for name, procedure in found.items()}


def _name_in_mysql(name):
    return _RENAMED.sub('utf8', name)


log = logging.getLogger(__name__)

NOT_ALLOWED = 1227  # ER_SPECIFIC_ACCESS_DENIED_ERROR: the user lacks PROCESS
# In the name of a file, the part before the slash is the database's name if it has only letters,
# digits and _.
_SIZE = ("SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces "
         "WHERE SUBSTRING_INDEX(name, '/', 1) = BINARY DATABASE()")


class MariaDBStats(MySQLStats):
    """Reads the files' sizes, also on followers, without a lock and without reading a table."""

    def get_db_size(self):
        """Return the bytes; 0 if unknown: the user lacks the privilege, or no table has a file."""
        conn, cursor = self.connmanager.open()
        try:
            cursor.execute(_SIZE)
            return int(cursor.fetchone()[0] or 0)
        except Exception as error:  # each driver has its own
            if not error.args or error.args[0] != NOT_ALLOWED:
                raise
            log.warning('how large the database is can not be asked without the privilege '
                        'PROCESS: %s', error)
            return 0
        finally:
            self.connmanager.close(conn, cursor)
