"""Reads what the writers wrote, again and again; Python 2.7.

usage: reader.py ZODB_CONF LOG PAUSE WITHIN

Between two reads are about PAUSE seconds; a read takes WITHIN seconds between two writers' records.
"seen" is logged with the numbers of all records of each writer, the transaction of the newest one,
the pairs whose halves differ, and the server.  Each round asks the server, too, so that a cache
alone is no success.
"""
import sys
import time

import client

LAST = 5  # records that are loaded in each round, of each writer


def main(configuration, log, pause, within):
    work = client.Work(configuration, client.Log(log))

    def attempt(began):
        work.ask_the_server()
        seen, newest, torn, root = {}, {}, {}, work.root()
        for key, tree in root.items():
            if key.startswith(client.KEY % ''):
                if seen:
                    time.sleep(float(within))
                name = key[len(client.KEY % ''):]
                first = root[client.PAIR % (name, 'x')]['number']
                numbers = list(tree.keys())
                for number in numbers[-LAST:]:
                    record = tree[number]
                    record['marker']
                    newest[name] = record._p_serial.encode('hex')
                seen[name] = client.ranges(numbers)
                second = root[client.PAIR % (name, 'y')]['number']
                if first != second:
                    torn[name] = [first, second]
        work.log.write('seen', began, seen=seen, newest=newest, torn=torn,
                       server=work.server() or '')

    work.repeat(attempt, float(pause))


if __name__ == '__main__':
    main(*sys.argv[1:])
