"""How large a database is that MariaDB keeps: the bytes of its tables' files.

RelStorage sums `SHOW TABLE STATUS`.  These figures come from InnoDB's statistics, which it makes
anew in the background, some time after a tenth of a table has changed: a database that was just
filled has a page for each table by them.
"""
import logging

from relstorage.adapters.mysql.stats import MySQLStats

log = logging.getLogger(__name__)

NOT_ALLOWED = 1227  # ER_SPECIFIC_ACCESS_DENIED_ERROR: the user lacks PROCESS
# What a name of letters, digits and _ has before the slash is the name of the database itself.
_SIZE = ("SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces "
         "WHERE SUBSTRING_INDEX(name, '/', 1) = BINARY DATABASE()")


class MariaDBStats(MySQLStats):
    """Asks for the files' sizes, which takes no lock and reads no table, on followers, too."""

    def get_db_size(self):
        """Returns bytes; 0 for unknown: where the user may not know it, or no table has a file."""
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
