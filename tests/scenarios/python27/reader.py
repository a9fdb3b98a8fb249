"""Reads what the writers wrote, again and again; Python 2.7.

usage: reader.py ZODB_CONF LOG PAUSE

"seen" is logged with the numbers of all records of each writer.  Each round asks the server, too,
so that a cache alone is no success.
"""
import sys

import client

LAST = 5  # records that are loaded in each round, of each writer


def main(configuration, log, pause):
    work = client.Work(configuration, client.Log(log))

    def attempt(began):
        work.ask_the_server()
        seen = {}
        for key, tree in work.root().items():
            if key.startswith(client.KEY % ''):
                numbers = list(tree.keys())
                for number in numbers[-LAST:]:
                    tree[number]['marker']
                seen[key[len(client.KEY % ''):]] = client.ranges(numbers)
        work.log.write('seen', began, seen=seen)

    work.repeat(attempt, float(pause))


if __name__ == '__main__':
    main(*sys.argv[1:])
