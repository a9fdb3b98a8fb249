"""Runs the bulk loader while another writer seems to be faster.

Arguments: how many attempts to make a conference conflict, then those of bulkload.
"""
import sys

from ZODB.POSException import ConflictError

from bulkloader import model
from bulkloader.__main__ import main

conflicts = int(sys.argv[1])
make_conference = model.make_conference


def slow(*args):
    global conflicts
    made = make_conference(*args)
    if conflicts:
        conflicts -= 1
        raise ConflictError('for the test')
    return made


model.make_conference = slow
sys.exit(main(sys.argv[2:]))
