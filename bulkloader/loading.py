"""Puts a specification into the storage, batch by batch, and goes on after interruptions."""
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
from indico_zodbrepl.dataplane import prewarm

from bulkloader import model, record
from bulkloader.arguments import command
from bulkloader.database import connected, errors_for_operators, opened
from bulkloader.errors import (
    ALREADY_LOADED, CONFLICTS, INTERRUPTED, NOT_INITIALISED, OTHER_RUN_UNFINISHED, LoaderError)
from bulkloader.progress import Progress, duration
from bulkloader.specification import GENERATOR, Specification

ATTEMPTS = 10            # of one transaction that conflicts with other writers
_FIRST_PAUSE = 0.05      # seconds; doubled after each attempt, half of it random
_LONGEST_PAUSE = 1.0


class _Interrupt(object):
    """Whether somebody asked to stop."""

    asked = False

    def __call__(self, signum, frame):
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextlib.contextmanager
def _interruptible():
    """Yields an `_Interrupt` that SIGINT sets; a second SIGINT raises KeyboardInterrupt."""
    interrupt = _Interrupt()
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def load(parameters, batch, add, out=sys.stdout, progress_to=sys.stderr):
    """Makes a run, or finishes the one that was interrupted.

    Args:
        parameters: `specification.Parameters`.
        batch: conferences in one transaction.
        add: make another run when one is complete.
        out: a file for the result.
        progress_to: a file for the progress.

    Raises LoaderError. Call it in the main thread: it takes SIGINT over.
    """
    with errors_for_operators(), _interruptible() as interrupt, opened() as manager:
        _Loading(manager, Specification(parameters), batch, interrupt).run(add, out, progress_to)


class _Loading(object):
    def __init__(self, manager, specification, batch, interrupt):
        self._manager = manager
        self._specification = specification
        self._batch = batch
        self._interrupt = interrupt

    def run(self, add, out, progress_to):
        total = self._specification.parameters.conferences
        position, done = self._transaction(lambda root: self._begin(root, add))
        if done:
            out.write('Going on: %d of %d conferences are there.\n' % (done, total))
            out.flush()
        begun, already = time.time(), done
        progress = Progress(progress_to, total, already)
        try:
            while done < total and not self._interrupt.asked:
                done = self._transaction(lambda root: self._make_batch(root, position))
                progress.report(done)
        finally:
            progress.finish()
        if done < total:
            raise LoaderError(
                INTERRUPTED, 'interrupted', '%d of %d conferences are committed' % (done, total),
                'give the same command again: it goes on where it stopped')
        out.write('Done: conferences %d, contributions in each %d, categories %d (%s).\n' % (
            total, self._specification.parameters.contributions,
            self._specification.parameters.categories, duration(time.time() - begun)))

    def _transaction(self, work):
        """Commits `work(root)` and returns its result; tries again after conflicts."""
        pause = _FIRST_PAUSE
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(pause * (0.5 + random.random() / 2))
                pause = min(2 * pause, _LONGEST_PAUSE)
            model.begin_batch()
            try:
                with connected(self._manager) as root:
                    result = work(root)
                    transaction.get().note(u'bulkload')
                    transaction.commit()
                    return result
            except ConflictError as error:
                conflict = error
        raise LoaderError(
            CONFLICTS, 'other writers were faster %d times in a row' % ATTEMPTS, str(conflict),
            'what was committed stays; give the same command again when there is less to do, '
            'or with a smaller --batch')

    def _begin(self, root, add):
        """Begins a run or finds the unfinished one; returns its position and what is done."""
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
        """Makes the next conferences of a run; returns how many are done then."""
        run = record.runs(root)[position]
        creator = _creator(root)
        last = min(run.done + self._batch, run.parameters.conferences)
        while run.done < last and not self._interrupt.asked:
            category = _category(run.categories[self._specification.category_of(run.done)])
            wanted = self._specification.conference(run.done)
            run.add(model.make_conference(category, creator, wanted).getId())
        return run.done


def _check_same(run, wanted):
    if run.parameters != wanted:
        raise LoaderError(
            OTHER_RUN_UNFINISHED, 'another run is unfinished',
            '%d of %d conferences of it are there' % (run.done, run.parameters.conferences),
            'finish it with: %s' % command(run.parameters))
    if run.generator != GENERATOR:
        raise LoaderError(
            OTHER_RUN_UNFINISHED, 'a run is unfinished that another version began',
            'its data comes from generator %d, this is generator %d' % (run.generator, GENERATOR),
            'finish it with the version that began it')


def _creator(root):
    """Returns the user who becomes the creator: Indico's first administrator."""
    if 'rootCategory' in root:
        for admin in HelperMaKaCInfo.getMaKaCInfoInstance().getAdminList().getList():
            if isinstance(admin, Avatar):
                return admin
    raise LoaderError(
        NOT_INITIALISED, 'this Indico has no administrator yet',
        'the first administrator becomes the creator of the events',
        'make the first run: python -m indico_zodbrepl.dataplane.firstrun --admin-file FILE')


def _category(category_id):
    if not CategoryManager().hasKey(category_id):
        raise LoaderError(
            OTHER_RUN_UNFINISHED, 'a category of the unfinished run is gone',
            'there is no category %s any more' % category_id,
            'restore it, or begin with an empty storage')
    return CategoryManager().getById(category_id)
