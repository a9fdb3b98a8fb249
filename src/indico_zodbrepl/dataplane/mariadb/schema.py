"""RelStorage's tables and procedures on MariaDB.

MariaDB differs from MySQL in two points that RelStorage 3.5.0 does not expect:

- It honours a column's `REFERENCES`, which MySQL ignores.  Those of
  `object_state.tid` and `prev_tid` name a column of another type, so that the
  table is refused with errno 150.
- It calls a character set utf8mb3 that MySQL calls utf8.  RelStorage takes
  that for a change, and drops and makes its procedures anew each time that a
  storage is opened, under the hands of other processes: their commits fail.
"""
import re

from relstorage.adapters.mysql.schema import MySQLSchemaInstaller

# MySQL's name of a character set is the start of its collations' names.
_RENAMED = re.compile(r'^utf8mb3(?=_|$)')


class MariaDBSchemaInstaller(MySQLSchemaInstaller):
    """Makes the same tables and procedures on MariaDB as RelStorage does on MySQL."""

    # RelStorage reads the procedures from the folder of the class's module,
    # unless they are in here: `MariaDBAdapter` has it make an installer of
    # MySQL's class first, which reads them into the same dictionary.
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
