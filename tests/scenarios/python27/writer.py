"""Commits numbered records; Python 2.7.

usage: writer.py ZODB_CONF LOG NAME BYTES PAUSE

A record takes about BYTES, and each commit sets both objects of the writer's pair to its number; between two commits are about PAUSE seconds.
Each number is tried once.  "acknowledged" is logged when the commit has returned, and only then,
with the id of its transaction.
"""
import os
import sys

import client
import transaction
from BTrees.IOBTree import IOBTree
from persistent.mapping import PersistentMapping


def main(configuration, log, name, size, pause):
    work = client.Work(configuration, client.Log(log))
    key = client.KEY % name
    numbers = iter(xrange(1, sys.maxint))

    def attempt(began):
        root = work.root()
        if key not in root:
            root[key] = IOBTree()
            for half in 'xy':
                root[client.PAIR % (name, half)] = PersistentMapping(number=0)
            transaction.commit()
            return
        number = next(numbers)
        marker = '%s %d' % (name, number)
        try:
            record = root[key][number] = PersistentMapping(
                marker=marker, filler=os.urandom(int(size) // 2).encode('hex'))
            for half in 'xy':
                root[client.PAIR % (name, half)]['number'] = number
            transaction.get().note(u'scenario ' + marker)
            transaction.commit()
        except Exception as error:
            work.log.write('refused', began, number=number,
                           error='%s: %s' % (type(error).__name__, error))
        else:
            work.log.write('acknowledged', began, number=number, tid=record._p_serial.encode('hex'))

    work.repeat(attempt, float(pause))


if __name__ == '__main__':
    main(*sys.argv[1:])
