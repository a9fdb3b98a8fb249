"""What tests of writing have to put back, kept in the database itself.

It is committed before the first modification and goes with the last one that is
put back.  So it is there after a process died, whichever server of the storage
is the primary then, and a history that lacks the journal lacks the
modifications too.

`root['zodbrepl-benchmarks']` maps the name of an Indico instance to a mapping:
modify, mark, began, and `before`, a mapping from the id of a conference to
(what is put back, date of its last modification).  All are plain persistent types.
"""
import transaction
from indico.core.db import DBMgr
from MaKaC.conference import ConferenceHolder
from persistent.mapping import PersistentMapping

from .attempts import committed
from .modifications import KINDS

KEY = 'zodbrepl-benchmarks'
BATCH = 10  # conferences that are changed in a transaction


def begin(instance, modify, mark, began, candidates, count):
    """Commits what is to be put back; what another instance's test uses is left out.

    Args:
        instance: a name for which nothing is recorded at present.
        modify: a key of KINDS.  mark: see `modifications`.
        candidates: ids of conferences, those to be taken first first.
        count: how many to use at most.

    Returns: a dict from the ids of the conferences that may be modified to
    what `describe` of the modification returned.
    """
    def work():
        root = DBMgr.getInstance().getDBConnection().root()
        others = set(conference_id for entry in root.get(KEY, {}).values()
                     for conference_id in entry['before'])
        kind = KINDS[modify]()
        before = PersistentMapping()
        for conference_id in candidates:
            if len(before) == count:
                break
            if conference_id in before or conference_id in others or (
                    not ConferenceHolder().hasKey(conference_id)):
                continue
            conference = ConferenceHolder().getById(conference_id)
            described = kind.describe(conference)
            if described is not None:
                before[conference_id] = described, conference.getModificationDate()
        if before:
            if KEY not in root:
                root[KEY] = PersistentMapping()
            root[KEY][instance] = PersistentMapping(
                {'modify': modify, 'mark': mark, 'began': began, 'before': before})
        transaction.get().note(u'benchmark: what is to be put back')
        return dict((each, before[each][0]) for each in before)
    return committed(work)[0]


def put_back(instance):
    """Puts back what is recorded for an instance and forgets it, a few at a time.

    Returns: of how many conferences something was put back.
    """
    total = 0
    while True:
        done, left = committed(lambda: _put_back_some(instance))[0]
        total += done
        if not left:
            return total


def _put_back_some(instance):
    """Returns how many were put back, and how many are left."""
    root = DBMgr.getInstance().getDBConnection().root()
    entry = root.get(KEY, {}).get(instance)
    if entry is None:
        return 0, 0
    done = 0
    kind, before = KINDS[entry['modify']](), entry['before']
    for conference_id in sorted(before):
        if done == BATCH:
            break
        described, modified = before.pop(conference_id)
        if not ConferenceHolder().hasKey(conference_id):
            continue  # somebody deleted it
        conference = ConferenceHolder().getById(conference_id)
        if kind.take_back(conference, described, entry['mark']):
            conference.setModificationDate(modified)
            done += 1
    if not before:
        del root[KEY][instance]
        if not root[KEY]:
            del root[KEY]
    transaction.get().note(u'benchmark: put back')
    return done, len(before)
