"""Databases to convert, and the program that converts them."""
import subprocess
import sys

import py
import transaction
import ZODB
import ZODB.config
from ZODB.POSException import POSKeyError
from ZODB.utils import load_current

from data_files import Site
from indico_zodbrepl.dataplane.convert import copying
from indico_zodbrepl.dataplane.convert.copying import Conversion

PROGRAM = [sys.executable, '-m', 'indico_zodbrepl.dataplane.convert']

SQLITE = '''\
%%import relstorage
<relstorage>
  keep-history %s
%s  <sqlite3>
    data-dir %s
  </sqlite3>
</relstorage>
'''


def ignore(progress):
    """For conversions whose progress is of no interest."""


def history(path, commits=3):
    """Makes a Data.fs with everything that a history can hold; returns its Site.

    That is: changes, one undone creation, one undone change, two undone at once, an
    object that was removed, texts that are not ASCII and extension data.
    """
    site = Site(py.path.local(path))
    site.commit(*[u'first%d' % number for number in range(commits)])
    made = site.commit(u'made')[-1]
    site.undo(made)
    site.commit(u'a')
    changed = site.commit(u'a', text=u'changed')[-1]
    site.undo(changed)
    _undo_several(site, 2)
    _texts(site)
    site.commit(u'b')
    site.remove(u'b')
    return site


def _undo_several(site, count):
    """Undoes the last ones in one transaction, which gives some objects two records."""
    tids = [site.commit(u'a', text=u'text %d' % number)[-1] for number in range(count)]
    storage = site.open()
    database = ZODB.DB(storage)
    manager = transaction.TransactionManager()
    database.undoMultiple([tid.encode('base64').rstrip('\n') for tid in reversed(tids)],
                          manager.get())
    manager.commit()
    database.close()


def _texts(site):
    database = ZODB.DB(site.open())
    manager = transaction.TransactionManager()
    connection = database.open(manager)
    connection.root()[u'text'] = u'\u20ac'
    manager.get().note(u'Gr\xfc\xdfe')
    manager.get().setUser(u'/acl J\xf6rg')
    manager.get().setExtendedInfo('list', [1, (u'\u20ac', None)])
    manager.commit()
    connection.close()
    database.close()


def sqlite_conf(folder, keep_history=True, blobs=''):
    """Writes the configuration of a RelStorage in a new folder; returns its path.

    Args:
        blobs: 'files' to have blobs in a folder beside it, 'rows' in the database.
    """
    data = folder.ensure('data', dir=True)
    conf = folder.join('zodb.conf')
    lines = '  blob-dir %s\n  shared-blob-dir %s\n' % (
        folder.join('blobs'), str(blobs == 'files').lower()) if blobs else ''
    conf.write(SQLITE % (str(keep_history).lower(), lines, data))
    return conf


def convert(source, target, say=ignore, before_verifying=None):
    """Converts in this process; returns the answer."""
    with copying.source(str(source)) as opened, copying.target(str(target)) as to:
        if before_verifying is not None:
            settle = to.settle

            def settled():
                settle()
                before_verifying()

            to.settle = settled
        return Conversion(opened, to, say).run()


def start(source, target):
    """Starts the program."""
    return subprocess.Popen(PROGRAM + [str(source), str(target)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def ended(process):
    """Waits for the program's end; returns its output and its errors without progress."""
    output, errors = process.communicate()
    return output, ''.join(line for line in errors.splitlines(True) if not line.startswith('{'))


def transactions(path):
    """Returns all that a storage holds, as comparable values."""
    with copying.source(str(path)) as opened:
        return [(each.tid, each.status, each.user, each.description, each.extension,
                 sorted((record.oid, record.data) for record in each.records))
                for each in opened.transactions()]


def undo_pointers(path):
    with copying.source(str(path)) as opened:
        return [record.data_txn for each in opened.transactions() for record in each.records]


def objects(storage, oids):
    """Returns each of these objects that an open storage has now: oid to (data, tid)."""
    found = {}
    for oid in oids:
        try:
            found[oid] = load_current(storage, oid)
        except POSKeyError:
            pass  # its creation was undone
    return found
