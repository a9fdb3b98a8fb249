"""How large a NEO database is; NEO itself has no such figure."""
import json
import logging
import os
import socket

from indico_zodbrepl.dataplane.server.control import NAME

log = logging.getLogger(__name__)

LIMIT = 2.0  # seconds


def of_files(folders):
    """Return bytes of the storages' SQLite databases that are on this host.

    Args:
        folders: {address: data folder}.
    """
    sizes = {}
    for address, folder in folders.items():
        path = os.path.join(folder, 'neo.sqlite')
        try:
            sizes[address] = os.path.getsize(path)
            sizes[address] += os.path.getsize(path + '-wal')
        except OSError:
            continue  # on another host, no storage, or nothing is in the log beside it
    return sizes


def of_one_copy(folder):
    """Ask the warden of this folder; return bytes, 0 when it does not know all storages.

    Args:
        folder: of a warden on this host, or None.
    """
    if folder is None:
        return 0
    try:
        status = ask_warden(folder)
    except (socket.error, ValueError) as error:
        log.warning('the warden in %s does not say how large the database is: %s',
                    folder, error)
        return 0
    return one_copy(status)


def one_copy(status):
    """Return the bytes of one copy of the data, from a warden's status; 0 for unknown."""
    storages = set(each['address'] for each in status.get('nodes', ())
                   if each['type'] == 'storage')
    sizes = status.get('sizes', {})
    table = status.get('partitions')
    if table is None or not storages or storages - set(sizes):
        return 0
    # Copies are spread evenly, and each storage's file has what the others' have.
    return sum(sizes[each] for each in storages) // (table['replicas'] + 1)


def ask_warden(folder):
    """Return a warden's status; socket.error or ValueError when there is none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptor = None
    try:
        connection.settimeout(LIMIT)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ValueError(str(error))
        # A socket's own path may not be as long as the folder's.
        connection.connect('/proc/self/fd/%d/%s' % (descriptor, NAME))
        connection.sendall('{"do": "status"}\n')
        return json.loads(connection.makefile('rb').readline())
    finally:
        connection.close()
        if descriptor is not None:
            os.close(descriptor)
