"""Client-side repair of RelStorage on SQLite: processes that first hand out OIDs together."""
from __future__ import absolute_import

MAKE_TABLE = (
    'BEGIN IMMEDIATE',
    'CREATE TABLE IF NOT EXISTS new_oid (zoid INTEGER PRIMARY KEY NOT NULL)',
    'INSERT INTO new_oid SELECT 0 WHERE NOT EXISTS (SELECT * FROM new_oid)',
    'COMMIT',
)


def make_table_at_once(adapter):
    """Let a storage make its table of OIDs in one step, before its first use.

    RelStorage looks for the table and makes it in further steps.  If two processes do that, one
    finds that the schema has changed, that the table exists, or a table without a row.

    Args:
        adapter: a `relstorage.adapters.sqlite.adapter.Sqlite3Adapter`; its instances share what
            is changed here.
    """
    allocator = adapter.oidallocator
    connect = allocator._connect

    def connect_to_table():
        if allocator._connection is None:
            _make_table(allocator)
        return connect()
    allocator._connect = connect_to_table


def _make_table(allocator):
    # In RelStorage's journal mode: to change it takes the file for itself alone.
    connection = allocator.driver.connect_to_file(
        allocator.db_path, override_pragmas={'journal_mode': 'off'})
    try:
        for statement in MAKE_TABLE:
            # One by one: a script fails if another process has changed the schema.
            connection.execute(statement)
    finally:
        connection.close()
