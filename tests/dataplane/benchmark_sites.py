"""Sites with what the bulk loader made, for the tests of benchmarks."""
import os

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
    status, _, error = site.python(
        '-m', 'bulkloader', '--conferences', str(CONFERENCES),
        '--contributions', str(CONTRIBUTIONS), '--categories', '2')
    assert 0 == status, error


def give_secret(site, mode=0o600):
    """Gives a site that does not run yet the secret of its control plane; returns the file."""
    path = site.folder.join('bench-secret')
    path.write(SECRET + '\n')
    path.chmod(mode)
    site.environment['ZODBREPL_BENCH_SECRET'] = str(path)
    return path


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
