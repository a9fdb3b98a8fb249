"""Opens both sides of a conversion by what their paths lead to."""
import contextlib

from . import files
from .neo_target import NEOTarget
from .relstorage_target import RelStorageTarget
from .storages import NEO, Source, keeps_of, open_conf

DATA_FILE = '.fs'


def source(path):
    """Opens what is copied, a context manager.

    Args:
        path: of a Data.fs, which ends in .fs, or of a ZODB configuration file.
    """
    return files.source(path) if path.endswith(DATA_FILE) else _source(path)


def target(path):
    """Opens what is filled, as `source` does."""
    return files.target(path) if path.endswith(DATA_FILE) else _target(path)


@contextlib.contextmanager
def _source(path):
    with contextlib.closing(open_conf(path)) as storage:
        yield Source(storage)


@contextlib.contextmanager
def _target(path):
    with contextlib.closing(open_conf(path)) as storage:
        kind = NEOTarget if keeps_of(storage) is NEO else RelStorageTarget
    with contextlib.closing(kind(lambda: open_conf(path))) as opened:
        yield opened
