"""The command line: `bulkload --conferences N ...` and `bulkload verify` (pure)."""
import argparse
import os

from bulkloader.specification import (
    EVENTS_PER_CATEGORY, FAN_OUT, MAX_CONTRIBUTIONS, MAX_FILES, MAX_MATERIALS, MAX_SESSIONS,
    MAX_SPEAKERS, PROFILES, Amount, Mix, Parameters, Sizes, default_categories, events_of_size,
    size_of)
from bulkloader.specification.amounts import FORMS
from bulkloader.specification.files import FORMS as SIZES

METHODS = ('bulk', 'model')

_DEFAULTS = dict(Parameters(None, None, None, 50, 1)._asdict(),
                 events_per_category=EVENTS_PER_CATEGORY)
_LATER = Parameters._fields[-len(Parameters.__new__.__defaults__):]

_EPILOG = """\
M, and the other amounts, are a number such as 12, a range such as 0-40, of
which each number is as frequent, or mean:12,max:60, where few are more
frequent than many.

The storage is the one of the cluster of etc/cluster.conf, or of the indico.conf
that INDICO_CONF names. An interrupted run goes on when the same command is given
again. 'bin/bulkload verify --help' tells how to count what a storage holds.

exit codes: 0 done; 1 verify found a difference; 2 bad arguments; 3 there is a
complete run already; 4 another run is unfinished; 5 Indico's first run was not
made; 6 storage away; 7 storage read-only; 8 too many conflicts with other
writers; 9 disk full; 10 this Indico needs --method model; 130 interrupted."""


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


def _checked(check, forms):
    """Return a parser of texts; `check(text)` raises ValueError with words about one."""
    def parse(text):
        if not all(' ' <= letter <= '~' for letter in text):
            raise argparse.ArgumentTypeError('%r is not %s' % (text, forms))
        text = text.replace(' ', '')
        try:
            check(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error))
        return int(text) if text.isdigit() else text
    return parse


def _amount(most):
    return _checked(lambda text: Amount(text, most), FORMS)


def _size(text):
    try:
        return size_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error))


def _file(text):
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError('there is no file %s' % text)
    return text


def _load_parser():
    parser = argparse.ArgumentParser(
        prog='bin/bulkload', epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Fills an Indico with past conferences, meetings and lectures.')
    _add_how_many(parser.add_argument_group('how many events'))
    _add_contents(parser.add_argument_group('what is in them'))
    _add_places(parser.add_argument_group('where they are'))
    _add_ways(parser.add_argument_group('how they are made'))
    return parser


def _add_how_many(group):
    count = group.add_mutually_exclusive_group()
    count.add_argument('--conferences', type=_number(1), metavar='N',
                       help='how many events; conferences, unless --events says otherwise')
    count.add_argument('--target-size', type=_size, metavar='SIZE',
                       help='as many as make a packed database larger by about SIZE, such as '
                       '15GiB; the same command always means the same number')
    group.add_argument('--profile', choices=sorted(PROFILES), metavar='NAME',
                       help='a known Indico; other options change parts of it. report-2011: %s'
                       % command(PROFILES['report-2011']).partition(' ')[2])


def _add_contents(group):
    group.add_argument('--contributions', type=_amount(MAX_CONTRIBUTIONS), metavar='M',
                       help='scheduled contributions in each event, 0 to %d' % MAX_CONTRIBUTIONS)
    group.add_argument('--sessions', type=_amount(MAX_SESSIONS), metavar='M',
                       help='sessions in each event, 0 to %d, which then hold its contributions '
                       '(default: %d)' % (MAX_SESSIONS, _DEFAULTS['sessions']))
    group.add_argument('--speakers', type=_amount(MAX_SPEAKERS), metavar='M',
                       help='speakers of each contribution and of each lecture, 0 to %d '
                       '(default: %d)' % (MAX_SPEAKERS, _DEFAULTS['speakers']))
    group.add_argument('--materials', type=_amount(MAX_MATERIALS), metavar='M',
                       help='materials, each a link, of each contribution and of each event '
                       'without any, 0 to %d (default: %d)' % (
                           MAX_MATERIALS, _DEFAULTS['materials']))
    group.add_argument('--files', type=_amount(MAX_FILES), metavar='M',
                       help="uploaded files of each event, 0 to %d, given to its contributions in "
                       "turn by Indico's own calls; `files` of the cluster file says where they go "
                       '(default: %d)' % (MAX_FILES, _DEFAULTS['files']))
    group.add_argument('--file-size', type=_checked(Sizes, SIZES), metavar='SIZE',
                       help='size of each file: %s, where few are large (default: %s)' % (
                           SIZES, _DEFAULTS['file_size']))
    group.add_argument('--events', type=_checked(Mix, 'a mix of kinds'), metavar='MIX',
                       help='kinds of event and how often each is made, such as '
                       'conference:70,meeting:20,lecture:10; lectures have neither contributions '
                       'nor sessions (default: %s)' % _DEFAULTS['events'])


def _add_places(group):
    categories = group.add_mutually_exclusive_group()
    categories.add_argument('--categories', type=_number(1), metavar='K',
                            help='categories that hold events')
    categories.add_argument('--events-per-category', type=_number(1), metavar='E',
                            help='the most events in one category (default: %d)'
                            % EVENTS_PER_CATEGORY)
    group.add_argument('--fan-out', type=_number(2), metavar='F',
                       help='the most categories in one; more get further levels '
                       '(default: %d)' % FAN_OUT)
    group.add_argument('--rooms', type=_number(1), metavar='R',
                       help='different rooms they take place in (default: %d)'
                       % _DEFAULTS['rooms'])


def _add_ways(group):
    group.add_argument('--seed', type=_number(0), metavar='S',
                       help='the same seed makes the same data (default: %d)' % _DEFAULTS['seed'])
    group.add_argument('--method', choices=METHODS, default=METHODS[0],
                       help="bulk stamps events out, model makes each by Indico's own calls; "
                       'both make the same (default: %(default)s)')
    group.add_argument('--batch', type=_number(1), metavar='B',
                       help='the most events in one transaction (default: 1000; 2000 and more in '
                       'a Data.fs that nobody else uses; 100 with --method model)')
    group.add_argument('--add', action='store_true',
                       help='when a run is complete, make another one in new categories')


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
    """Return ('load', options) or ('verify', options).

    The options of 'load' have `parameters` (a `Parameters`), `method`, `batch` (None for what is
    usual with the method) and `add`.
    Ends the process with code 2 and a message when the arguments are wrong.
    """
    if argv[:1] == ['verify']:
        return 'verify', _verify_parser().parse_args(argv[1:])
    parser = _load_parser()
    options = parser.parse_args(argv)
    options.parameters = _parameters(parser, options)
    return 'load', options


def _parameters(parser, options):
    wanted = dict(_DEFAULTS)
    if options.profile:
        wanted.update(PROFILES[options.profile]._asdict(), categories=None)
    wanted.update((name, value) for name, value in vars(options).items()
                  if name in wanted and value is not None)
    if wanted['contributions'] is None:
        parser.error('argument --contributions is required, unless --profile is given')
    if not options.target_size and wanted['conferences'] is None:
        parser.error('one of the arguments --conferences, --target-size and --profile is required')
    events_per_category = wanted.pop('events_per_category')
    parameters = Parameters(**wanted)
    if options.target_size:
        parameters = parameters._replace(
            conferences=events_of_size(parameters, options.target_size))
    if parameters.categories is None:
        parameters = parameters._replace(
            categories=default_categories(parameters.conferences, events_per_category))
    if parameters.categories > parameters.conferences:
        parser.error('argument --categories: %d categories for %d events would leave '
                     'some empty' % (parameters.categories, parameters.conferences))
    return parameters


def command(parameters):
    """Return the command line that makes a run of these `Parameters`."""
    earlier = Parameters(*parameters[:-len(_LATER)])
    shown = [(name, value) for name, value in zip(Parameters._fields, parameters)
             if name not in _LATER or value != getattr(earlier, name)]
    return 'bin/bulkload ' + ' '.join(
        '--%s %s' % (name.replace('_', '-'), value) for name, value in shown)
