"""`bin/bulkload`: see `arguments` for the command line."""
from __future__ import print_function

import os
import sys

from bulkloader.arguments import parse
from bulkloader.errors import BAD_ARGUMENTS, INTERRUPTED, OK, LoaderError
from bulkloader.mail import no_mail
from bulkloader.progress import amount_of_bytes
from bulkloader.specification import estimated_bytes


def _check_configuration():
    path = os.environ.get('INDICO_CONF', '')
    if not os.path.isfile(path):
        raise LoaderError(
            BAD_ARGUMENTS, 'there is no indico.conf',
            'INDICO_CONF is %s' % (path or 'not set'),
            'bin/zodbrepl up writes it; for another Indico set INDICO_CONF')


def _announcement(parameters):
    """Return what a run will make, for those who gave a size or the name of a profile."""
    return '%d events, about %s of packed database' % (
        parameters.conferences, amount_of_bytes(estimated_bytes(parameters)))


def main(argv=None):
    """Run the command line; return the exit code."""
    action, options = parse(sys.argv[1:] if argv is None else argv)
    try:
        _check_configuration()
        with no_mail():
            if action == 'verify':
                from bulkloader.verify import command
                return command(options.storage_conf, options.json)
            from bulkloader.loading import load
            if options.target_size or options.profile:
                print(_announcement(options.parameters))
                sys.stdout.flush()
            load(options.parameters, options.batch, options.add, options.method)
            return OK
    except LoaderError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print('NOTICE: interrupted\nHINT: give the same command again', file=sys.stderr)
        return INTERRUPTED


if __name__ == '__main__':
    sys.exit(main())
