"""The size of a NEO database; NEO itself has no such figure."""
import json
import logging
import os
import socket

from indico_zodbrepl.dataplane.server.control_socket import NAME

log = logging.getLogger(__name__)

LIMIT = 2.0  # seconds


def of_files(folders):
    """Return the bytes of the storages' SQLite databases on this host.

    Args:
        folders: {address: data folder} of this host.
    """
    sizes = {}
    for address, folder in folders.items():
        path = os.path.join(folder, 'neo.sqlite')
        try:
            sizes[address] = os.path.getsize(path)
            sizes[address] += os.path.getsize(path + '-wal')
        except OSError:
            continue  # no storage, or no write-ahead log beside it
    return sizes


def of_one_copy(folder):
    """Ask the NEO monitor of a folder; return bytes, 0 if it does not know all storages.

    Args:
        folder: of a NEO monitor on this host, or None.
    """
    if folder is None:
        return 0
    try:
        status = ask_monitor(folder)
    except (socket.error, ValueError) as error:
        log.warning('the NEO monitor in %s does not report the size of the database: %s',
                    folder, error)
        return 0
    return one_copy(status)


def one_copy(status):
    """Return the bytes of one copy of the data, from a NEO monitor's status; 0 for unknown."""
    storages = set(each['address'] for each in status.get('nodes', ())
                   if each['type'] == 'storage')
    sizes = status.get('sizes', {})
    table = status.get('partitions')
    if table is None or not storages or storages - set(sizes):
        return 0
    # Copies are spread evenly, and each storage's file has what the others' have.
    return sum(sizes[each] for each in storages) // (table['replicas'] + 1)


def ask_monitor(folder):
    """Return a NEO monitor's status; raise socket.error or ValueError if there is none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptor = None
    try:
        connection.settimeout(LIMIT)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ValueError(str(error))
        # The path of a socket is limited, and the folder's may be longer.
        connection.connect('/proc/self/fd/%d/%s' % (descriptor, NAME))
        connection.sendall('{"do": "status"}\n')
        return json.loads(connection.makefile('rb').readline())
    finally:
        connection.close()
        if descriptor is not None:
            os.close(descriptor)
