"""Send an order to a NEO cluster, with time limits, and without the orders that destroy data.

usage: python -m indico_zodbrepl.dataplane.neo.admin --admin HOST:PORT
           [--limit SECONDS] COMMAND ...

Prints the result as one line of JSON; a failure is one line on standard error.

exit status: 0 done, 1 refused or failed: nothing else was done, 2 wrong command
line, 3 the admin node or the primary master is away, 4 no answer in time: the order may have been
executed.
"""
from __future__ import absolute_import

import argparse
import json
import sys

from ZEO.Exceptions import ClientDisconnected

from indico_zodbrepl.dataplane.neo import healing, orders
from indico_zodbrepl.dataplane.neo.control import LIMIT, Control, Failed, NoAnswer, NotReady, parse
from indico_zodbrepl.dataplane.neo.pings import ping
from indico_zodbrepl.dataplane.neo.state import describe

STATUS_OF = ((NotReady, 3), (NoAnswer, 4), (Failed, 1))


def _pack(ask, given):
    """Pack without garbage collection, after a check that every copy is present."""
    orders.require_every_copy(ask)
    from indico_zodbrepl.dataplane.neo.packing import pack
    return pack(given.master, given.cluster, given.days)


def _start(ask, given):
    if given.with_what_is_there:
        return orders.start_with_what_is_there(ask, given.wait)
    if given.only_wait:
        return orders.wait_until_running(ask, given.storage, given.wait)
    return orders.start(ask, given.storage, given.wait, not given.has_data)


def _parser():
    parser = argparse.ArgumentParser(prog='python -m indico_zodbrepl.dataplane.neo.admin')
    parser.add_argument('--admin', type=parse, required=True, metavar='HOST:PORT')
    parser.add_argument('--limit', type=float, default=LIMIT, metavar='SECONDS',
                        help='for each question; default %(default)s')
    commands = parser.add_subparsers(metavar='COMMAND')

    def command(name, action, explanation, address=False, wait=None):
        added = commands.add_parser(name, help=explanation, description=explanation)
        added.set_defaults(action=action)
        if address:
            added.add_argument('address', type=parse, metavar='HOST:PORT')
        if wait is not None:
            added.add_argument('--wait', type=float, default=wait, metavar='SECONDS')
        return added

    command('status', lambda ask, given: describe(ask), 'what the cluster says of itself')
    added = command('start', _start, 'start a new cluster, wait for one with data', wait=30.0)
    added.add_argument('--storage', type=parse, action='append', default=[],
                       metavar='HOST:PORT', help='one that has to be there; repeat')
    added.add_argument('--has-data', action='store_true',
                       help='fail if all storages are empty')
    added.add_argument('--only-wait', action='store_true',
                       help='wait until it runs: another host starts it if it is new')
    added.add_argument('--with-what-is-there', action='store_true',
                       help='start although storages are missing: what only they have is lost')
    command('check', lambda ask, given: orders.check(ask, given.reference),
            'compare copies') \
        .add_argument('--reference', type=parse, required=True, metavar='HOST:PORT',
                      help='a storage whose data are known to be good')
    added = command('pack', _pack, 'pack while every copy is there')
    added.add_argument('--master', type=parse, action='append', required=True,
                       metavar='HOST:PORT')
    added.add_argument('--cluster', required=True)
    added.add_argument('--days', type=float, default=1.0)
    for name, order, explanation in (
            ('kill', orders.kill, 'take a storage out that others can stand in for'),
            ('drop', orders.drop, 'forget a storage; its data are deleted'),
            ('add', orders.add, 'take in a storage that is pending')):
        command(name, lambda ask, given, order=order: order(ask, given.address),
                explanation, address=True)
    command('heal', lambda ask, given: healing.heal(ask, given.address, given.wait),
            'fill a storage that lost its disk', address=True, wait=300.0)
    command('ping', lambda ask, given: ping(given.address, given.wait),
            'ask each process for a sign of life', wait=5.0) \
        .add_argument('address', type=parse, nargs='+', metavar='HOST:PORT')
    command('tweak', lambda ask, given: orders.tweak(ask, given.without),
            'redistribute the partitions') \
        .add_argument('--without', type=parse, action='append', default=[],
                      metavar='HOST:PORT', help='to hold nothing; name each that is down')
    command('set-state', lambda ask, given: orders.set_state(ask, given.state),
            'change the state of the cluster') \
        .add_argument('state', metavar='STATE')
    command('set-replicas', lambda ask, given: orders.set_replicas(ask, given.count),
            'how many further copies there are to be') \
        .add_argument('count', type=int)
    return parser


def main(arguments=None):
    """Execute one command; return the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    ask = Control(given.admin, given.limit)
    try:
        print(json.dumps(given.action(ask, given), sort_keys=True))
        return 0
    except ValueError as error:
        parser.error(str(error))
    except ClientDisconnected as error:
        sys.stderr.write('%s\n' % error)
        return 3
    except Failed as failure:
        sys.stderr.write('%s\n' % failure)
        return next(status for kind, status in STATUS_OF if isinstance(failure, kind))
    finally:
        ask.close()


if __name__ == '__main__':
    sys.exit(main())
