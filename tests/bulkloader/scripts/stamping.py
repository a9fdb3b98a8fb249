"""Compares events that are stamped out with events that Indico makes; prints JSON.

Arguments: the `Parameters` as JSON, and what Indico is made to do (see `CHANGES`).
Prints the sizes of the events that are stamped as Indico makes them, why no stencil could be made
for others, in what others differ, and whether anything was kept.
"""
import json
import sys

from bulkloader import model
from bulkloader.bulk import samples, stamping
from bulkloader.bulk.cutting import Unexplained, prove
from bulkloader.errors import LoaderError
from bulkloader.specification import Parameters, Specification
from indico.core.db import DBMgr

make_conference, make_stencil = model.make_conference, stamping.make_stencil
made_stencils = []


def _colour_from_the_title(category, creator, wanted):
    conference = make_conference(category, creator, wanted)
    conference.colour = 'red' if wanted.title.encode('utf-8')[-1] in '13579' else 'blue'
    return conference


def _number_from_the_title(category, creator, wanted):
    conference = make_conference(category, creator, wanted)
    conference.letters = len(wanted.title) + wanted.start.year
    return conference


def _no_change(category, creator, wanted):
    return make_conference(category, creator, wanted)


def _counted(manager, conference):
    made_stencils.append(make_stencil(manager, conference))
    return made_stencils[-1]


CHANGES = {'nothing': _no_change, 'colour': _colour_from_the_title,
           'number': _number_from_the_title}


def own_events(manager, specification):
    """Yields each event's index and a `Sample` of it that Indico makes."""
    for index in range(specification.parameters.conferences):
        with samples.scratch(manager) as connection:
            yield index, samples.build(connection, specification.conference(index), 4 + index)


def main():
    parameters = Parameters(**json.loads(sys.argv[1]))
    model.make_conference = CHANGES[sys.argv[2]]
    stamping.make_stencil = _counted
    manager = DBMgr.getInstance()
    specification = Specification(parameters)
    stamps = stamping.Stamping(specification, manager)
    manager.startRequest()
    mine, before = manager.getDBConnection(), manager._storage.lastTransaction()
    equal, refused, different = [], [], []
    for index, own in own_events(manager, specification):
        try:
            stencil = stamps.stencil(index)
        except LoaderError as error:
            refused.append(error.detail)
            continue
        try:
            prove(stencil, own)
            equal.append(stencil.count)
        except Unexplained as error:
            different.append(str(error))
    print json.dumps({
        'equal': equal, 'refused': refused, 'different': different, 'stencils': len(made_stencils),
        'same_connection': manager.getDBConnection() is mine,
        'registered': len(mine._registered_objects),
        'committed': manager._storage.lastTransaction() != before})
    manager.endRequest(False)
    manager._db.close()


main()
