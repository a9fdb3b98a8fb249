"""Runs the bulk loader in an Indico whose conferences know how long their titles are.

Arguments: those of bulkload.
"""
import sys

from bulkloader import model
from bulkloader.__main__ import main

make_conference = model.make_conference


def _peculiar(category, creator, wanted):
    conference = make_conference(category, creator, wanted)
    conference.letters = 100 * wanted.start.year + len(wanted.title)
    return conference


model.make_conference = _peculiar
sys.exit(main(sys.argv[1:]))
