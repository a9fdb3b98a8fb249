"""Put a specification into the storage, batch by batch, and goes on after interruptions."""
import contextlib
import random
import signal
import sys
import time

import transaction
from MaKaC.common.info import HelperMaKaCInfo
from MaKaC.conference import CategoryManager
from MaKaC.user import Avatar
from ZODB.POSException import ConflictError
from indico_zodbrepl.dataplane.indico import prewarm

from bulkloader import model, record
from bulkloader.arguments import command
from bulkloader.bulk.making import BulkWay
from bulkloader.database import connected, errors_for_operators, opened
from bulkloader.files import MOST_BYTES, MOST_FILES, add_files
from bulkloader.errors import (
    ALREADY_LOADED, CONFLICTS, INTERRUPTED, NOT_INITIALISED, OTHER_RUN_UNFINISHED, LoaderError)
from bulkloader.progress import Progress, duration
from bulkloader.specification import GENERATOR, Contents, Specification

ATTEMPTS = 10            # of one transaction that conflicts with other writers
_FIRST_PAUSE = 0.05      # seconds; doubled after each attempt, half of it random
_LONGEST_PAUSE = 1.0
_BATCH = 100             # events in one transaction of the model's way


class _Interrupt(object):
    """Whether somebody asked to stop: the first signal asks, a second one raises.

    While a transaction is saved a second one waits: FileStorage could lose track of its file.
    """

    def __init__(self):
        self._asked = self._again = self._held = False

    def __call__(self, signum, frame):
        if not self._asked:
            self._asked = True
        elif self._held:
            self._again = True
        else:
            raise KeyboardInterrupt

    def was_asked(self):
        return self._asked

    @contextlib.contextmanager
    def held(self):
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._again:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _interruptible():
    """Yield an `_Interrupt` that SIGINT and SIGTERM reach."""
    interrupt = _Interrupt()
    before = [(each, signal.signal(each, interrupt)) for each in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield interrupt
    finally:
        for each, handler in before:
            signal.signal(each, handler)


def load(parameters, batch, add, method='bulk', out=sys.stdout, progress_to=sys.stderr):
    """Make a run, or finishes the one that was interrupted, by whichever method.

    Args:
        parameters: `specification.Parameters`.
        batch: the most events in one transaction, fewer where these are large; None for what is
            usual with the method.
        add: make another run when one is complete.
        method: a name of `WAYS`.
        out: a file for the result.
        progress_to: a file for the progress.

    Raises LoaderError. Call it in the main thread: it takes SIGINT and SIGTERM over.
    """
    with errors_for_operators(), _interruptible() as interrupt, opened() as manager:
        specification = Specification(parameters)
        way = WAYS[method](specification, manager)
        with way.at_work():
            _Loading(manager, specification, way, batch, interrupt).run(add, out, progress_to)


class ModelWay(object):
    """Makes events by Indico's own calls. `bulk.making.BulkWay` tells what the methods do."""

    def __init__(self, specification, manager):
        self._specification = specification

    @contextlib.contextmanager
    def at_work(self):
        yield

    def usual_batch(self, there):
        return _BATCH

    def make(self, connection, run, creator, last, stop):
        while run.done < last and not stop():
            category = CategoryManager().getById(
                run.categories[self._specification.category_of(run.done)])
            wanted = self._specification.conference(run.done)
            run.add(model.make_conference(category, creator, wanted).getId())

    def saved(self):
        """Nothing is remembered."""

    failed = saved


WAYS = {'bulk': BulkWay, 'model': ModelWay}


class _Loading(object):
    def __init__(self, manager, specification, way, batch, interrupt):
        self._manager = manager
        self._specification = specification
        self._way = way
        self._batch = batch
        self._interrupt = interrupt

    def run(self, add, out, progress_to):
        total = self._specification.parameters.conferences
        position, done = self._transaction(lambda root: self._begin(root, add))
        if done:
            out.write('Going on: %d of %d conferences are there.\n' % (done, total))
            out.flush()
        begun, already = time.time(), done
        progress = Progress(progress_to, total, already, self._manager._db.getSize)
        try:
            while done < total and not self._interrupt.was_asked():
                done = self._transaction(lambda root: self._make_batch(root, position))
                progress.report(done)
        finally:
            progress.finish()
        if done < total:
            raise LoaderError(
                INTERRUPTED, 'interrupted', '%d of %d conferences are committed' % (done, total),
                'give the same command again: it goes on where it stopped')
        if self._specification.parameters.files:
            self._add_files(position, progress_to)
        out.write('Done: conferences %d, contributions in each %s, categories %d (%s).\n' % (
            total, self._specification.parameters.contributions,
            self._specification.parameters.categories, duration(time.time() - begun)))

    def _add_files(self, position, progress_to):
        """Upload the files of the events of a run that lack them."""
        files = self._specification.files
        counts = [files.count(index) for index in range(self._specification.parameters.conferences)]
        with_files = self._transaction(lambda root: record.runs(root)[position].with_files)
        if not sum(counts):
            return
        self._manager._db.cacheMinimize()  # of stamped events it has objects without their state
        self._written, contents = 0, Contents()
        progress = Progress(progress_to, sum(counts), sum(counts[:with_files]),
                            lambda: self._written, what='files')
        try:
            while with_files < len(counts) and not self._interrupt.was_asked():
                with_files = self._transaction(
                    lambda root: self._add_some_files(root, position, contents))
                progress.report(sum(counts[:with_files]))
        finally:
            progress.finish()
        if with_files < len(counts):
            raise LoaderError(
                INTERRUPTED, 'interrupted', '%d of %d files are committed' % (
                    sum(counts[:with_files]), sum(counts)),
                'give the same command again: it goes on where it stopped')

    def _add_some_files(self, root, position, contents):
        """Upload the files of the next events; return how many events have theirs then."""
        run = record.runs(root)[position]
        index, count, size = run.with_files, 0, 0
        while index < run.done and (not count or count < MOST_FILES and size < MOST_BYTES):
            wanted = self._specification.files.of(index)
            if wanted:
                add_files(run.conferences[index], wanted, contents)
            count += len(wanted)
            size += sum(each.size for each in wanted)
            index += 1
        run.add_files(index)
        self._written += size
        return index

    def _transaction(self, work):
        """Commit `work(root)` and return its result; tries again after conflicts."""
        pause = _FIRST_PAUSE
        for self._attempt in range(ATTEMPTS):
            if self._attempt:
                time.sleep(pause * (0.5 + random.random() / 2))
                pause = min(2 * pause, _LONGEST_PAUSE)
            model.begin_batch()
            try:
                with connected(self._manager) as root:
                    result = work(root)
                    transaction.get().note(u'bulkload')
                    with self._interrupt.held():
                        transaction.commit()
                        self._way.saved()
                    return result
            except ConflictError as error:
                conflict = error
                self._way.failed()
        raise LoaderError(
            CONFLICTS, 'other writers were faster %d times in a row' % ATTEMPTS, str(conflict),
            'what was committed stays; give the same command again when there is less to do, '
            'or with a smaller --batch')

    def _begin(self, root, add):
        """Begin a run or finds the unfinished one; return its position and what is done."""
        _creator(root)
        wanted = self._specification.parameters
        runs = record.runs(root)
        if runs and not runs[-1].finished:
            _check_same(runs[-1], wanted)
            return len(runs) - 1, runs[-1].done
        if runs and not add:
            raise LoaderError(
                ALREADY_LOADED, 'a complete run is there already',
                'made by: %s' % command(runs[-1].parameters),
                'nothing needs to be done; --add makes another run in new categories')
        top = CategoryManager().getRoot()
        if top.conferences:
            raise LoaderError(
                NOT_INITIALISED, 'the top category holds events, so it cannot hold categories',
                '%d events lie directly in %r' % (len(top.conferences), top.getName()),
                'move them into a category below it first')
        prewarm.prewarm_globals()
        categories = model.make_categories(top, self._specification.category_tree())
        record.begin(root, wanted, categories)
        return len(runs), 0

    def _make_batch(self, root, position):
        """Make the next events of a run, fewer after conflicts; return how many are done then."""
        run = record.runs(root)[position]
        creator = _creator(root)
        for category_id in run.categories:
            _check_category(category_id)
        batch = self._batch or self._way.usual_batch(
            CategoryManager().getRoot().getNumConferences())
        wanted = max(1, batch >> self._attempt)
        last = min(run.done + wanted, run.parameters.conferences)
        self._way.make(root._p_jar, run, creator, last, self._interrupt.was_asked)
        return run.done


def _check_same(run, wanted):
    if run.generator != GENERATOR:
        raise LoaderError(
            OTHER_RUN_UNFINISHED, 'a run is unfinished that another version began',
            '%d of %d conferences of it are there; its data comes from generator %d, this is '
            'generator %d' % (run.done, run.parameters.conferences, run.generator, GENERATOR),
            'finish it with the version that began it')
    if run.parameters != wanted:
        raise LoaderError(
            OTHER_RUN_UNFINISHED, 'another run is unfinished',
            '%d of %d conferences of it are there' % (run.done, run.parameters.conferences),
            'finish it with: %s' % command(run.parameters))


def _creator(root):
    """Return the user who becomes the creator: Indico's first administrator."""
    if 'rootCategory' in root:
        for admin in HelperMaKaCInfo.getMaKaCInfoInstance().getAdminList().getList():
            if isinstance(admin, Avatar):
                return admin
    raise LoaderError(
        NOT_INITIALISED, 'this Indico has no administrator yet',
        'the first administrator becomes the creator of the events',
        'make the first run: bin/indico-python -m indico_zodbrepl.dataplane.indico.firstrun '
        '--admin-file FILE')


def _check_category(category_id):
    if not CategoryManager().hasKey(category_id):
        raise LoaderError(
            OTHER_RUN_UNFINISHED, 'a category of the unfinished run is gone',
            'there is no category %s any more' % category_id,
            'restore it, or begin with an empty storage')
