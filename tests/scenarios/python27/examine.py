"""Tells as JSON what a node holds or what a lost tail holds; Python 2.7.

usage: examine.py nodes ZODB_CONF...    of each node, the numbers of each writer's records, and a
                                        digest of the present state of every object
       examine.py held ZODB_CONF...     the numbers of each writer's records, through any storage
       examine.py files DATA_FS...      writer, number and transaction of each record in data files
                                        that a server may have open
       examine.py tails DATA_FS...      the same of exported tails
"""
import hashlib
import json
import os
import shutil
import sys
import tempfile

import client
import ZODB
import ZODB.config
from ZODB.FileStorage import FileStorage


def node(configuration):
    """Loads every object of a node, through its own server."""
    storage = ZODB.config.storageFromURL(configuration)
    last = storage.lastTransaction()
    digest, objects, following = hashlib.sha1(), 0, None
    while last.strip(b'\0'):
        oid, tid, data, following = storage.record_iternext(following)
        digest.update(oid + tid + data)
        objects += 1
        if following is None:
            break
    return {'held': _held(storage) if objects else {}, 'digest': digest.hexdigest(),
            'objects': objects, 'last': last.encode('hex')}


def held(configuration):
    """Loads every record of every writer."""
    return _held(ZODB.config.storageFromURL(configuration))


def data_file(path):
    """Loads every record of every writer from a data file itself; its index is not used."""
    folder = tempfile.mkdtemp()
    try:
        os.symlink(os.path.abspath(path), os.path.join(folder, 'Data.fs'))
        storage = FileStorage(os.path.join(folder, 'Data.fs'), read_only=True)
        return [[name, number, record._p_serial.encode('hex')]
                for name, tree in _trees(storage) for number, record in _records(name, tree)]
    finally:
        shutil.rmtree(folder)


def _held(storage):
    return {name: client.ranges([number for number, _ in _records(name, tree)])
            for name, tree in _trees(storage)}


def _trees(storage):
    """The records of each writer by their numbers."""
    root = ZODB.DB(storage).open().root()
    for key, tree in root.items():
        if key.startswith(client.KEY % ''):
            yield key[len(client.KEY % ''):], tree


def _records(name, tree):
    for number, record in tree.items():
        if record['marker'] != '%s %d' % (name, number):
            raise AssertionError('%s %d is %r' % (name, number, record['marker']))
        yield number, record


def tail(path):
    """Reads an exported tail, whose records have to hold what their transaction's note says."""
    storage = FileStorage(path, read_only=True)
    found = []
    for each in storage.iterator():
        if each.description.startswith(b'scenario '):
            marker = each.description[len(b'scenario '):]
            if any(record.data and marker in record.data for record in each):
                name, number = marker.decode('ascii').rsplit(' ', 1)
                found.append([name, int(number), each.tid.encode('hex')])
    return found


if __name__ == '__main__':
    what, paths = sys.argv[1], sys.argv[2:]
    examine = {'nodes': node, 'held': held, 'files': data_file, 'tails': tail}[what]
    json.dump([examine(path) for path in paths], sys.stdout)
    sys.stdout.flush()
    os._exit(0)
