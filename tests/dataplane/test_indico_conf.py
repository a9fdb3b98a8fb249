"""Commands that need Indico say which indico.conf is missing, before they import it."""
import os
import subprocess
import sys

import pytest


def run(module, conf, *args):
    process = subprocess.Popen(
        (sys.executable, '-m', 'indico_zodbrepl.dataplane.' + module) + args,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=dict(os.environ, INDICO_CONF=conf))
    output, error = process.communicate()
    return process.returncode, output, error


@pytest.mark.parametrize('module, args', [
    ('firstrun', ('--admin-file', 'admin.json')), ('adopt', ())])
@pytest.mark.parametrize('conf, said', [
    ('', 'INDICO_CONF is not set'),
    ('/nowhere/indico.conf', '/nowhere/indico.conf: No such file')])
def test_a_missing_indico_conf_is_one_line(module, args, conf, said):
    status, output, error = run(module, conf, *args)
    assert (2, '') == (status, output)
    assert said in error
    assert 1 == len(error.splitlines())


@pytest.mark.parametrize('module', ['firstrun', 'adopt', 'downgrade'])
def test_help_needs_no_indico_conf(module):
    status, output, error = run(module, '/nowhere/indico.conf', '--help')
    assert (0, '') == (status, error)
    assert output.startswith('usage: ')
