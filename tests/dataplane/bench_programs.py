"""Runs programs of `dataplane.benchmarks` on storages in a folder."""
import json
import os

from forks import forker

IN_MEMORY = '<mappingstorage>\n</mappingstorage>\n'
IN_A_FILE = '<filestorage>\n  path %s\n</filestorage>\n'


def configured(folder, text):
    """Writes a configuration; returns its path."""
    path = folder.join('zodb.conf')
    path.write(text)
    return str(path)


def in_a_file(folder):
    """Returns the path of the configuration of a FileStorage in the folder."""
    return configured(folder, IN_A_FILE % folder.join('Data.fs'))


def answered(program, *arguments):
    """Returns the answer of a program that has to succeed."""
    status, output, error = forker('server').run(
        ('-m', 'indico_zodbrepl.dataplane.benchmarks.' + program) + arguments, dict(os.environ))
    assert 0 == status, error
    return json.loads(output.splitlines()[-1])
