"""Compare the transactions of a recovery export with the database, and apply selected ones.

    python -m indico_zodbrepl.dataplane.recover.program show TAIL CONF
    python -m indico_zodbrepl.dataplane.recover.program apply TAIL CONF PICKS --user U [--dry-run]

TAIL is a recovery export of `datafs export`: the folder, or the tail.fs in it.  CONF is a ZODB
configuration file, of a client of the running primary.  PICKS is `all`, or transaction ids
and TID:OID of single objects, with commas between them.

A transaction is recovered as a whole or not at all; a TID:OID includes the new objects that it
refers to.  The selection becomes one transaction.  New objects get new oids, and recovered records
are noted in TAIL/salvaged.json, so that nothing is recovered twice.

Prints one JSON object on standard output:
{"tail", "after", "transactions": [{"tid", "user", "description", "outcome", "objects": [{"oid",
"what", "relation", "outcome", "why", "differences", "file", "file_name"}]}], "written": null or tid,
"objects_written"}

A difference is {"field", "old", "new", "protected"}; see `protected`.  Its values are in clear.

`file` is the path of a blob's file in the export, null if it is missing there; `file_name` is its
path in Indico's archive, null if the same selection does not tell it.

exit status: 0 done, 1 unforeseen error, 2 wrong command line, 3 the export cannot be read, 4
others kept changing the same objects, 5 nothing of the selection can be recovered, 6 the storage
is away or read-only, 7 a file is of a newer release.
"""
from __future__ import absolute_import

import argparse
import json
import sys

import ZODB.config
from ZODB.POSException import ConflictError, ReadOnlyError, StorageError

from indico_zodbrepl.dataplane.formats import NewerFormat
from indico_zodbrepl.dataplane.recover.database import Database, Notes, new_oids, write
from indico_zodbrepl.dataplane.recover.export import NoTail, Tail
from indico_zodbrepl.dataplane.recover.plan import APPLIES, CONFLICTS, HAS_IT, Plan
from indico_zodbrepl.dataplane.recover.records import stored_files

ATTEMPTS = 5
DONE = 0
USAGE, NO_TAIL, BUSY, NOTHING, AWAY, NEWER = range(2, 8)


class NoSuchPick(Exception):
    """A selected item that the export does not hold; the text names it."""


def _unicode(text):
    return text.decode('utf-8', 'replace')


def picks_of(text, tail):
    """Return {tid: None or set of oids} for a list of selected items; raise NoSuchPick."""
    if text == 'all':
        return {each.tid: None for each in tail.transactions}
    known = {each.tid: {record.oid for record in each.records} for each in tail.transactions}
    picks = {}
    for pick in text.split(','):
        tid, _, oid = pick.partition(':')
        try:
            tid, oid = tid.decode('hex'), oid.decode('hex')
        except TypeError:
            raise NoSuchPick('%r is neither TID nor TID:OID, hexadecimal' % pick)
        if tid not in known or oid and oid not in known[tid]:
            raise NoSuchPick('the tail holds no %s' % pick)
        if not oid:
            picks[tid] = None
        elif picks.get(tid, set()) is not None:
            picks.setdefault(tid, set()).add(oid)
    return picks


def examine(tail, database, notes, picks):
    """Return a `Plan` with the applicable part of the selection, and [(transaction, verdicts)]."""
    plan = Plan(tail, database, notes.oids, notes.done)
    return plan, [(each, plan.consider(each, picks[each.tid]))
                  for each in tail.transactions if each.tid in picks]


def outcome_of(verdicts):
    """Return 'conflicts' if any record of a transaction does, 'has it' if nothing is left."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if CONFLICTS in outcomes:
        return CONFLICTS
    return HAS_IT if outcomes <= {HAS_IT} else APPLIES


def described(tail, considered):
    """Return the description of transactions for standard output."""
    names = {entry[1].oid: _unicode(entry[0]) for each, _ in considered
             for record in each.records for _, entry in stored_files(record.data)
             if isinstance(entry, tuple)}
    return {
        'tail': tail.name, 'after': tail.after.encode('hex'), 'written': None,
        'objects_written': 0,
        'transactions': [
            {'tid': each.tid.encode('hex'), 'user': _unicode(each.user),
             'description': _unicode(each.description), 'outcome': outcome_of(verdicts),
             'objects': [{'oid': verdict.record.oid.encode('hex'), 'what': verdict.record.what,
                          'relation': verdict.relation, 'outcome': verdict.outcome,
                          'why': verdict.why, 'differences': verdict.differences,
                          'file': verdict.record.file,
                          'file_name': names.get(verdict.record.oid)}
                         for verdict in verdicts]}
            for each, verdicts in considered]}


def apply_picks(tail, storage, picks, user, dry_run):
    """Recover the selection in one transaction; return the result for standard output.

    Raises ConflictError if others changed the same objects each time.
    """
    for attempt in range(ATTEMPTS):
        database = Database(storage)
        notes = Notes(tail.folder, database)
        plan, considered = examine(tail, database, notes, picks)
        said = described(tail, considered)
        said['objects_written'] = len(plan.writes)
        if dry_run or not plan.writes:
            return said
        taken = [(each, verdicts) for each, verdicts in considered
                 if outcome_of(verdicts) == APPLIES]
        description = u'recovered from lost tail %s, transaction %s' % (
            _unicode(tail.name), u', '.join(each.tid.encode('hex') for each, _ in taken))
        oids = new_oids(storage, plan)
        notes.begin([verdict.record[:2] for _, verdicts in taken for verdict in verdicts],
                    {lost: oids[oid] for lost, oid in plan.oids.items() if oid in oids})
        try:
            tid = write(database, plan, oids, user, description)
        except ConflictError:
            notes.forget()
            if attempt + 1 == ATTEMPTS:
                raise
        else:
            notes.finish(tid)
            said['written'] = tid.encode('hex')
            return said


def _parser():
    parser = argparse.ArgumentParser(
        prog='python -m indico_zodbrepl.dataplane.recover.program',
        description='Shows a lost tail beside the database, and makes chosen transactions again.')
    commands = parser.add_subparsers(dest='command')
    for name in ('show', 'apply'):
        command = commands.add_parser(name)
        command.add_argument('tail', metavar='TAIL')
        command.add_argument('conf', metavar='CONF')
        if name == 'apply':
            command.add_argument('picks', metavar='PICKS')
            command.add_argument('--user', required=True, type=_unicode)
            command.add_argument('--dry-run', action='store_true')
    return parser


def _run(options):
    tail = Tail(options.tail)
    if options.command == 'show':
        options.picks, options.user, options.dry_run = 'all', u'', True
    picks = picks_of(options.picks, tail)
    storage = ZODB.config.storageFromURL(options.conf)
    try:
        return apply_picks(tail, storage, picks, options.user, options.dry_run)
    finally:
        storage.close()


def main(argv=None):
    options = _parser().parse_args(argv)
    try:
        said = _run(options)
    except NewerFormat as error:
        status = NEWER
    except NoTail as error:
        status = NO_TAIL
    except NoSuchPick as error:
        status = USAGE
    except ConflictError as error:
        status = BUSY
    except (ReadOnlyError, StorageError) as error:
        status = AWAY
    else:
        json.dump(said, sys.stdout)
        sys.stdout.write('\n')
        return NOTHING if options.command == 'apply' and not said['objects_written'] else DONE
    sys.stderr.write('recover: %s: %s\n' % (type(error).__name__, error))
    return status


if __name__ == '__main__':
    sys.exit(main())
