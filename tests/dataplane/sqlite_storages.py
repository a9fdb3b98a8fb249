"""A RelStorage on SQLite, as Indico uses it, for tests."""
import ZODB.config

SQLITE = '''\
%%import relstorage
%%import indico_zodbrepl.dataplane
<indicostorage>
  <relstorage>
    <sqlite3>
      data-dir %s
    </sqlite3>
  </relstorage>
</indicostorage>
'''


def open_sqlite(folder):
    """Return an `IndicoStorage` with its data in a folder."""
    return ZODB.config.storageFromString(SQLITE % folder)
