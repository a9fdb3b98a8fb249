"""Sites with what the bulk loader made, for the tests of benchmarks."""
import json
import os
import subprocess

import requests

from indico_site import site_with_file
from processes import PATIENCE

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECRET = 'a secret of this cluster'
PATH = '/indico/zodbrepl/benchmarks/'
CONFERENCES = 6
CONTRIBUTIONS = 3


def load(site):
    """Has the bulk loader make conferences in the database of a site that does not run."""
    site.environment['PYTHONPATH'] = HOME
    process = site.popen(
        '-m', 'bulkloader', '--conferences', str(CONFERENCES),
        '--contributions', str(CONTRIBUTIONS), '--categories', '2')
    _, error = process.communicate()
    assert 0 == process.returncode, error


def give_secret(site):
    """Gives a site that does not run yet the secret of its control plane, the file `site.secret`."""
    site.secret = site.folder.join('bench-secret')
    site.secret.write(SECRET + '\n')
    site.secret.chmod(0o600)
    site.environment['ZODBREPL_BENCH_SECRET'] = str(site.secret)


class Describer(object):
    """Describes data files by one process of describe_loaded.py, configured as a site is."""

    def __init__(self, site):
        self._process = site.popen(
            os.path.join(os.path.dirname(os.path.abspath(__file__)), 'describe_loaded.py'),
            stdin=subprocess.PIPE)

    def describe(self, path):
        self._process.stdin.write(path + '\n')
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, self._process.communicate()[1]
        return json.loads(answer)

    def close(self):
        """Ends the process: its standard input ends."""
        self._process.communicate()


def site_with_events(processes, folder, htdocs, data):
    """Returns a site that runs, with a secret, and a copy of some data."""
    site = site_with_file(processes, folder, htdocs, data)
    give_secret(site)
    site.start()
    site.wait_for_page()
    return site


def ask(site, name, secret=SECRET, session=None, headers=(), **fields):
    """POSTs one test; returns the answer."""
    sent = dict(headers)
    if secret is not None:
        sent['X-Zodbrepl-Secret'] = secret
    return (session or requests).post(
        site.address + PATH + name, data=fields, headers=sent, timeout=PATIENCE,
        allow_redirects=False)


def measured(site, name, **fields):
    """Returns the result of one test that has to succeed."""
    answer = ask(site, name, **fields)
    assert 200 == answer.status_code, answer.text
    return answer.json()
