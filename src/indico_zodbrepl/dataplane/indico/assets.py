"""Build the style sheets and scripts that Indico's pages include.

Indico makes these bundles (SCSS to CSS, everything minified) when a page first
needs one, which takes many seconds, and concurrent threads disturb each other.
Bundles built beforehand are only looked up.
"""
from __future__ import absolute_import

import fcntl
import os
import posixpath
from contextlib import contextmanager

from indico.core.config import Config
from indico.web import assets
from urlparse import urlparse
from webassets import Environment


def build():
    """Build missing and outdated bundles in AssetsDir.

    Needs an open connection (one filter reads a setting), writes nothing into
    the database; safe in several processes at once.  The environment is that of
    Indico's pages (`MaKaC.webinterface.pages.base.WPBase`).
    """
    environment = _environment(Config.getInstance())
    # A web server of another user serves the bundles; they hold nothing private.
    before = os.umask(0o022)
    try:
        with _locked(environment.directory):
            for bundle in environment:
                bundle.urls()
    finally:
        os.umask(before)


def _environment(config):
    htdocs = config.getHtdocsDir()
    base = urlparse(config.getBaseURL()).path
    environment = Environment(config.getAssetsDir(), base + '/static/assets/')
    environment.debug = False
    environment.config['PYSCSS_STATIC_URL'] = base + '/static/'
    environment.config['PYSCSS_LOAD_PATHS'] = [
        os.path.join(htdocs, 'sass', 'lib', 'compass'),
        os.path.join(htdocs, 'sass')]
    environment.config['PYSCSS_DEBUG_INFO'] = False
    environment.append_path(htdocs, '/')
    for folder in ('css', 'js'):
        environment.append_path(
            os.path.join(htdocs, folder), posixpath.join(base, folder))
    assets.register_all_js(environment)
    assets.register_all_css(environment, 'Default.css')
    return environment


@contextmanager
def _locked(folder):
    if not os.path.isdir(folder):
        os.makedirs(folder)
    with open(os.path.join(folder, '.lock'), 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
