"""Runs the bulk loader while another writer seems to be faster.

Arguments: how many attempts to make an event conflict, then those of bulkload.
"""
import sys

from ZODB.POSException import ConflictError

from bulkloader.__main__ import main
from bulkloader.record import Run

conflicts = int(sys.argv[1])
add = Run.add


def slow(*args):
    global conflicts
    add(*args)
    if conflicts:
        conflicts -= 1
        raise ConflictError('for the test')


Run.add = slow
sys.exit(main(sys.argv[2:]))
