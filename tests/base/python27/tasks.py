"""What the tests do by Indico's own model, a function each; Python 2.7.

Each runs in a process of its own, returns what JSON can hold, and opens the database first.
"""
import contextlib
import datetime
import os
import random
import threading
import time

import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
import transaction
from indico.core.config import Config
from indico.core.db import DBMgr
from MaKaC.authentication.AuthenticationMgr import AuthenticatorMgr
from MaKaC.common.contextManager import ContextManager
from MaKaC.common.info import HelperMaKaCInfo
from MaKaC.conference import (
    CategoryManager, ConferenceHolder, Contribution, CustomRoom, Session, SessionSlot)
from MaKaC.plugins import PluginsHolder
from MaKaC.plugins.RoomBooking.default.dalManager import DALManager
from MaKaC.plugins.RoomBooking.default.initialize import initializeRoomBookingDB
from MaKaC.rb_location import Location
from MaKaC.user import AvatarHolder
from MaKaC.webinterface.rh.categoryDisplay import UtilsConference
from bulkloader.__main__ import main as bulkload
from indico_zodbrepl.dataplane.indico import prewarm
from indico_zodbrepl.dataplane.indico.set_up import create_user, run as first_run
from ZEO.Exceptions import ClientDisconnected
from ZODB.blob import Blob
from ZODB.POSException import ConflictError, POSKeyError, ReadOnlyError, Unsupported

import examination

ATTEMPTS = 200  # of a transaction that conflicts
LONGEST_PAUSE = 0.3  # seconds between two of them
AWAY = 0.2  # seconds to wait for a server that is away


@contextlib.contextmanager
def request(commit=True):
    """As a request of Indico: a connection, and what Indico remembers, for one transaction."""
    manager = DBMgr.getInstance()
    ContextManager.destroy()
    ContextManager.set('autoOps', [])
    manager.startRequest()
    done = False
    try:
        yield manager.getDBConnection().root()
        if commit:
            manager.commit()
        done = True
    finally:
        ContextManager.destroy()
        manager.endRequest(done and commit)


def fill(admin, users, conferences, contributions, categories):
    """First run, then users, categories, conferences, sessions and rooms.

    Args:
        admin, users: as `firstrun.read_admin_file` returns them, one and several.

    Returns: ids: `categories` with events, the `event` that has sessions, the `room`.
    """
    first_run(_bytes(admin))
    DBMgr.getInstance().close()
    DBMgr.setInstance(None)
    code = bulkload(['--conferences', str(conferences), '--contributions', str(contributions),
                     '--categories', str(categories), '--batch', '20'])
    if code:
        raise AssertionError('bulkload ended with %d' % code)
    DBMgr.setInstance(None)
    with request():
        for user in users:
            prewarm.prewarm_user(create_user(_bytes(user), AuthenticatorMgr()))
        leaves = [each.getId() for each in CategoryManager().getList() if each.getConferenceList()]
        event = ConferenceHolder().getList()[0]
        _add_sessions(event)
        filled = {'categories': leaves, 'event': event.getId(), 'room': _add_room()}
    return filled


def _bytes(fields):
    return dict((name, value.encode('utf-8')) for name, value in fields.items())


def _add_sessions(event):
    """Two sessions with a room and a slot each."""
    for number in range(2):
        session = Session()
        session.setValues({'title': 'session %d' % number, 'sDate': event.getStartDate(),
                           'eDate': event.getStartDate() + datetime.timedelta(hours=1)})
        event.addSession(session)
        room = CustomRoom()
        room.setName('hall %d' % number)
        session.setRoom(room)
        slot = SessionSlot(session)
        slot.setStartDate(session.getStartDate())
        slot.setDuration(dur=datetime.timedelta(hours=1))
        session.addSlot(slot)


def _add_room():
    """A room of RoomBooking, whose data is in Indico's own database; its id."""
    info = HelperMaKaCInfo.getMaKaCInfoInstance()
    info.setRoomBookingDBConnectionParams(Config.getInstance().getDBConnectionParams())
    PluginsHolder().getById('RoomBooking').setActive(True)
    DALManager.connect()
    initializeRoomBookingDB('Universe', force=False)
    room = Location.getDefaultLocation().newRoom()
    room.locationName, room.name, room.site, room.building = 'Universe', 'big hall', 'here', 1
    room.floor, room.roomNr, room.capacity, room.isActive = '1', '2', 60, True
    room.isReservable, room.responsibleId = True, AvatarHolder().getList()[0].getId()
    room.insert()
    DALManager.commit()
    return room.id


def write(name, category, event, log, stop=None, count=None, threads=1):
    """Commits conferences and contributions to one event, again and again.

    Each attempt has a title of its own, which is appended to the file `log` when the attempt's
    commit was acknowledged, and only then.

    Args:
        name: the beginning of all titles.
        stop: ends when this file is there.
        count: ends after so many acknowledged commits of each thread.
        threads: writers in this process.

    Returns: how many conflicts there were.
    """
    writers = [_Writer('%s.%d' % (name, number), category, event, log, stop, count)
               for number in range(threads)]
    _open()  # once: two threads at a time would open the database twice
    running = [threading.Thread(target=each.run) for each in writers]
    for each in running:
        each.start()
    for each in running:
        each.join()
    failures = [each.failure for each in writers if each.failure]
    if failures:
        raise AssertionError(failures)
    return sum(each.conflicts for each in writers)


def _open():
    """Opens the database; again where a busy server does not answer in time."""
    for attempt in range(ATTEMPTS):
        try:
            return DBMgr.getInstance()
        except ClientDisconnected:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(AWAY)


class _Writer(object):
    def __init__(self, name, category, event, log, stop, count):
        self._name, self._category, self._event = name, category, event
        self._stop, self._count = stop, count
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.conflicts = 0
        self.failure = None

    def run(self):
        try:
            acknowledged = tries = in_a_row = 0
            while not self._is_to_end(acknowledged):
                tries += 1
                title = '%s.%d' % (self._name, tries)
                try:
                    self._commit(title, conference=tries % 4 == 1)
                except ConflictError:
                    self.conflicts += 1
                    in_a_row += 1
                    if in_a_row == ATTEMPTS:
                        raise
                    time.sleep(random.uniform(0, min(0.01 * 2 ** in_a_row, LONGEST_PAUSE)))
                except (ClientDisconnected, ReadOnlyError):
                    # Also of one who waited too long for another's commit, on a busy machine.
                    in_a_row += 1
                    if self._stop is None and in_a_row == ATTEMPTS:
                        raise
                    time.sleep(AWAY)
                else:
                    os.write(self._log, title + '\n')
                    acknowledged += 1
                    in_a_row = 0
        except BaseException as error:
            self.failure = '%s: %s: %s' % (self._name, type(error).__name__, error)
            raise

    def _is_to_end(self, acknowledged):
        if self._stop is not None and os.path.exists(self._stop):
            return True
        return self._count is not None and acknowledged >= self._count

    def _commit(self, title, conference):
        with request():
            if conference:
                made = CategoryManager().getById(self._category).newConference(
                    AvatarHolder().getList()[0])
                UtilsConference.setValues(made, dict(
                    _FORM, title=title, sYear=2011, sMonth=1, sDay=2, sHour=9, sMinute=0,
                    eYear=2011, eMonth=1, eDay=3, eHour=18, eMinute=0))
                prewarm.prewarm_conference(made)
            else:
                contribution = Contribution()
                event = ConferenceHolder().getById(self._event)
                event.addContribution(contribution)
                contribution.setParent(event)
                contribution.setTitle(title, notify=False)
                contribution.setDuration(0, 20)
                contribution.setStartDate(event.getStartDate())
                event.getSchedule().addEntry(contribution.getSchEntry(), 2)
                prewarm.prewarm_contribution(contribution)


_FORM = {'description': '', 'keywords': '', 'Timezone': 'UTC', 'locationName': '',
         'locationAddress': '', 'roomName': '', 'eventType': 'conference',
         'defaultStyle': 'static'}


def undo(category):
    """Describes a category anew and undoes that.

    Returns: `undone`, whether the old description is back; `error` in words when it was refused.
    """
    with request():
        target = CategoryManager().getById(category)
        before = target.getDescription()
        target.setDescription('changed by mistake')
        transaction.get().note(u'a mistake')
    error = None
    try:
        with request():
            manager = DBMgr.getInstance()
            # Who can't undo lists nothing that could be.
            listed = manager.undoInfo() or [{'id': manager._db.lastTransaction()}]
            manager.undo(listed[0]['id'])
    except Exception as refusal:
        error = '%s: %s' % (type(refusal).__name__, refusal)
    with request(commit=False):
        description = CategoryManager().getById(category).getDescription()
    return {'undone': description == before, 'kept': description == 'changed by mistake',
            'error': error}


def keep_blob():
    """Saves a blob; why that was refused, or None, and what is read again, or None."""
    error = None
    try:
        with request() as root:
            root['a blob'] = Blob('what it holds')
    except Unsupported as refusal:
        error = str(refusal)
    with request(commit=False) as root:
        kept = root['a blob'].open().read() if 'a blob' in root else None
    return {'error': error, 'kept': kept}


def revise(category):
    """Describes a category anew, three times; returns `oid` and `before`, one revision's, in hex.

    That is readable as the last one before `before`, until a pack removes it.
    """
    for number in range(3):
        with request():
            target = CategoryManager().getById(category)
            target.setDescription('revision %d' % number)
        with request(commit=False):
            target = CategoryManager().getById(category)
            target.getDescription()
            oid, serial = target._p_oid, target._p_serial
        if number == 1:
            before = serial
    return {'oid': oid.encode('hex'), 'before': before.encode('hex')}


def is_readable(oid, before):
    """Whether the storage holds the last revision of an object that is older than a tid."""
    with request(commit=False):
        storage = DBMgr.getInstance()._db.storage
        try:
            return storage.loadBefore(oid.decode('hex'), before.decode('hex')) is not None
        except POSKeyError:
            return False


def examine():
    """What the database holds; see `examination.everything`."""
    maintenance = examination.maintenance(DBMgr.getInstance())
    with request(commit=False):
        found = examination.everything(DBMgr.getInstance())
    return dict(found, maintenance=maintenance)


def contents():
    """What tells whether anything was changed; see `examination.contents`."""
    with request(commit=False):
        return examination.contents(DBMgr.getInstance())


def size():
    """What Indico tells as the size of the database, bytes."""
    with request(commit=False):
        return DBMgr.getInstance().getDBSize()
