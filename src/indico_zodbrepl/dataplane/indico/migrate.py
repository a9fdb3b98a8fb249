"""Run Indico's own migration to 1.2 on a copy of an older release's database.

usage: INDICO_CONF=... python -m indico_zodbrepl.dataplane.indico.migrate RELEASE

RELEASE is 1.0 or 1.1.  Runs the tasks of bin/migration/migrate.py that are newer, and answers its
question whether to disable plugins that lack a library with yes.  An interrupted migration cannot
be continued: start again with a new copy.  Tells each task on standard error, one JSON object a
line; the migration's own output goes there as well.  Prints {"tasks": [...], "questions": [...]}.

exit status: 0 done, 1 the migration failed, 2 wrong command line or no indico.conf,
130 interrupted.
"""
from __future__ import absolute_import

import argparse
import imp
import json
import os
import sys
import traceback

from indico_zodbrepl.dataplane.indico import instance

RELEASES = ('1.0', '1.1')


def load(questions):
    """Return Indico's script as a module; each question that it asks is added to a list."""
    import indico
    import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
    from indico.util import console

    def answer(question):
        questions.append(question.strip())
        return True

    console.yesno = answer
    folder = os.path.dirname(os.path.dirname(os.path.abspath(indico.__file__)))
    return imp.load_source('indico_migration',
                           os.path.join(folder, 'bin', 'migration', 'migrate.py'))


def run(release):
    """Migrate the database that INDICO_CONF names; return what was done."""
    from pkg_resources import parse_version

    questions, tasks = [], []
    script = load(questions)

    def announced(task):
        def announce(*arguments):
            tasks.append(task.__name__)
            sys.stderr.write(json.dumps({'task': ' '.join(task.__doc__.split())}) + '\n')
            return task(*arguments)
        announce.__name__, announce.__doc__ = task.__name__, task.__doc__
        return announce

    script.MIGRATION_TASKS[:] = [
        (version, announced(task), always, never)
        for version, task, always, never in script.MIGRATION_TASKS]
    try:
        script.runMigration(prevVersion=parse_version(release))
    finally:
        script.DBMgr.getInstance().close()
    return {'tasks': tasks, 'questions': questions}


def main(arguments=None):
    """Run one migration; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='python -m indico_zodbrepl.dataplane.indico.migrate',
        description="Runs Indico's migration to 1.2 on a copy of an older database.")
    parser.add_argument('release', metavar='RELEASE', choices=RELEASES)
    options = parser.parse_args(arguments)
    output, sys.stdout = sys.stdout, sys.stderr
    try:
        instance.require()
        done = run(options.release)
    except instance.Missing as error:
        sys.stderr.write('%s\n' % error)
        return 2
    except KeyboardInterrupt:
        sys.stderr.write('interrupted\n')
        return 130
    except Exception as error:  # any task of the script may fail in its own way
        traceback.print_exc()
        sys.stderr.write('%s: %s\n' % (type(error).__name__, error))
        return 1
    finally:
        sys.stdout = output
    print(json.dumps(done, sort_keys=True))
    return 0


if __name__ == '__main__':
    sys.exit(main())
