"""Opens the database as Indico does, changes and packs it. Arguments: what to do, if anything."""
import functools
import json
import sys

import indico.core.db.manager as manager
from MaKaC.common.info import HelperMaKaCInfo
from MaKaC.plugins.RoomBooking.default import dalManager

# A client of a server that is not there waits 30 seconds by default.
manager.ClientStorage = functools.partial(manager.ClientStorage, wait_timeout=1)
dalManager.ClientStorage.ClientStorage = functools.partial(dalManager.ClientStorage.ClientStorage, wait_timeout=1)


def change(dbi):
    for number in range(3):
        dbi.startRequest()
        dbi.getDBConnection().root()['changed'] = number
        dbi.endRequest(True)


def pack(dbi):
    change(dbi)
    before = len(list(dbi._db.storage.iterator()))
    dbi.pack(days=0)
    return {'before': before, 'after': len(list(dbi._db.storage.iterator()))}


def undo(dbi):
    """Undoes nothing, as the storage does not offer it; the error's class and words."""
    change(dbi)
    last = dbi.undoInfo()[0]['id']
    dbi._db.storage.supportsUndo = lambda: False
    try:
        dbi.undo(last)
    except Exception as error:
        return {'error': error.__class__.__name__, 'words': str(error)}


def look(dbi):
    dbi.startRequest()
    connection = dbi.getDBConnection()
    found = {'storage': dbi._db.storage.__class__.__name__, 'cache': connection._cache.cache_size,
             'categories': sorted(connection.root()['categories'].keys())}
    dbi.endRequest(False)
    return found


def lose_first_calls(dbi):
    """Opens a database whose storage lost its server for the first calls, and one that never gets it back."""
    from ZEO.Exceptions import ClientDisconnected
    import ZODB.FileStorage
    opened = []

    class Losing(ZODB.FileStorage.FileStorage):
        losses = 0
        closed = False

        def loadBefore(self, *args):
            if Losing.losses:
                Losing.losses -= 1
                raise ClientDisconnected()
            return super(Losing, self).loadBefore(*args)

        def close(self):
            self.closed = True
            super(Losing, self).close()

        def __init__(self, *args, **options):
            super(Losing, self).__init__(*args, **options)
            opened.append(self)

    dbi._db.close()
    ZODB.FileStorage.FileStorage = Losing
    Losing.losses = 3
    dbi = manager.DBMgr()
    categories = look(dbi)['categories']
    dbi._db.close()
    Losing.losses = 10 ** 6
    try:
        manager.DBMgr()
        error = None
    except ClientDisconnected as lost:
        error = lost.__class__.__name__
    return {'categories': categories, 'error': error, 'closed': [each.closed for each in opened]}


def room_booking(dbi):
    """RoomBooking in the main database: what it reads, also when a thread's connection changes."""
    dbi.startRequest()
    info = HelperMaKaCInfo.getMaKaCInfoInstance()
    from indico.core.config import Config
    info.setRoomBookingDBConnectionParams(Config.getInstance().getDBConnectionParams())
    dbi.endRequest(True)

    dbi.startRequest()
    dal = dalManager.DALManager
    dal.connect()
    dal.getRoot('Rooms')[1] = 'a room'
    dal.commit()
    dal.disconnect()
    dbi.endRequest(True)

    other = dbi._db.open()  # takes the connection of the first request
    dbi.startRequest()
    connected_without_connecting = dal.isConnected()
    dal.connect()
    own = dal.getInstance().connection is dbi.getDBConnection()
    room = dal.getRoot('Rooms')[1]
    with dal.getInstance().transaction():
        pass
    dal.disconnect()
    dbi.endRequest(False)
    other.close()
    return {'connected_without_connecting': connected_without_connecting, 'own': own, 'room': room}


if __name__ == '__main__':
    instance = manager.DBMgr.getInstance()
    print json.dumps(globals()[sys.argv[1]](instance))
