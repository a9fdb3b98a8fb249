"""One transaction as Indico makes it for a request: tried again after conflicts."""
from indico.core.db import DBMgr, turns
from indico.core.db.retries import STORAGE_ERRORS, Retries
from indico.util.contextManager import ContextManager


def begin():
    """Forgets what Indico remembers between the objects of one request."""
    ContextManager.destroy()
    ContextManager.set('autoOps', [])


def committed(work):
    """Commits `work()`; returns its result and how often it was tried again.

    Raises the last error of the storage when Indico would answer a request
    with it; nothing of this transaction was saved then, unless the error has
    the attribute `outcome_unknown`.
    """
    manager = DBMgr.getInstance()
    turns.letPass()
    retries, retried = Retries(), 0
    try:
        while True:
            begin()
            try:
                manager.sync()
                result = work()
                manager.commit()
                return result, retried
            except STORAGE_ERRORS as error:
                manager.abort()
                retries.waitOrRaise(error)
                retried += 1
            except Exception:
                # Much of Indico takes an error of the storage for a missing object.
                try:
                    manager.raiseFailure()
                except STORAGE_ERRORS as error:
                    manager.abort()
                    retries.waitOrRaise(error)
                    retried += 1
                    continue
                manager.abort()
                raise
    finally:
        turns.end()
