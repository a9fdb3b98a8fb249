"""The command line: `bulkload --conferences N ...` and `bulkload verify` (pure)."""
import argparse
import os

from bulkloader.specification import MAX_CONTRIBUTIONS, Parameters, default_categories

DEFAULT_ROOMS = 50
DEFAULT_SEED = 1
DEFAULT_BATCH = 100

_EPILOG = """\
The storage is the one of the cluster of etc/cluster.conf, or of the indico.conf
that INDICO_CONF names. An interrupted run goes on when the same command is given
again. 'bin/bulkload verify --help' tells how to count what a storage holds.

exit codes: 0 done; 1 verify found a difference; 2 bad arguments; 3 there is a
complete run already; 4 another run is unfinished; 5 Indico's first run was not
made; 6 storage away; 7 storage read-only; 8 too many conflicts with other
writers; 130 interrupted."""


def _number(least, most=None):
    def parse(text):
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError('%r is not a whole number' % text)
        if value < least:
            raise argparse.ArgumentTypeError('%d is less than %d' % (value, least))
        if most is not None and value > most:
            raise argparse.ArgumentTypeError('%d is more than %d' % (value, most))
        return value
    return parse


def _file(text):
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError('there is no file %s' % text)
    return text


def _load_parser():
    parser = argparse.ArgumentParser(
        prog='bin/bulkload', epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Fills an Indico with past conferences, by Indico's own model.")
    parser.add_argument('--conferences', type=_number(1), required=True, metavar='N',
                        help='how many conferences to make')
    parser.add_argument('--contributions', type=_number(0, MAX_CONTRIBUTIONS), required=True,
                        metavar='M', help='scheduled contributions in each conference, 0 to %d'
                        % MAX_CONTRIBUTIONS)
    parser.add_argument('--categories', type=_number(1), metavar='K',
                        help='categories that hold them (default: so many that '
                        'none holds more than 200 conferences)')
    parser.add_argument('--rooms', type=_number(1), default=DEFAULT_ROOMS, metavar='R',
                        help='different rooms they take place in (default: %(default)s)')
    parser.add_argument('--seed', type=_number(0), default=DEFAULT_SEED, metavar='S',
                        help='the same seed makes the same data (default: %(default)s)')
    parser.add_argument('--batch', type=_number(1), default=DEFAULT_BATCH, metavar='B',
                        help='conferences in one transaction (default: %(default)s)')
    parser.add_argument('--add', action='store_true',
                        help='when a run is complete, make another one in new categories')
    return parser


def _verify_parser():
    parser = argparse.ArgumentParser(
        prog='bin/bulkload verify',
        description='Compares what the storage holds with what the bulk loader recorded. '
                    'Opens the storage read-only. Exit code 1 when something differs.')
    parser.add_argument('--storage-conf', type=_file, metavar='FILE',
                        help='a ZODB configuration file (default: the storage of indico.conf)')
    parser.add_argument('--json', action='store_true', help='print the result as JSON')
    return parser


def parse(argv):
    """Returns ('load', options) or ('verify', options).

    The options of 'load' have `parameters` (a `Parameters`), `batch` and `add`.
    Ends the process with code 2 and a message when the arguments are wrong.
    """
    if argv[:1] == ['verify']:
        return 'verify', _verify_parser().parse_args(argv[1:])
    parser = _load_parser()
    options = parser.parse_args(argv)
    if options.categories is None:
        options.categories = default_categories(options.conferences)
    if options.categories > options.conferences:
        parser.error('argument --categories: %d categories for %d conferences would leave '
                     'some empty' % (options.categories, options.conferences))
    options.parameters = Parameters(options.conferences, options.contributions,
                                    options.categories, options.rooms, options.seed)
    return 'load', options


def command(parameters):
    """Returns the command line that makes a run of these `Parameters`."""
    return 'bin/bulkload ' + ' '.join(
        '--%s %s' % (name, getattr(parameters, name)) for name in Parameters._fields)
