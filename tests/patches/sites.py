"""Configured Indico sites, and questions asked of them in processes of their own.

`Site.ask(tree, question, ...)` runs scripts/`question`.py with that tree's Indico and
returns the JSON document it printed last.
"""
import contextlib
import itertools
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading

from trees import HERE

# Generous: the machine that runs the tests may be busy.
PATIENCE = 400
# Below the ports that the kernel gives to outgoing connections; other suites have others.
FIRST_PORT = int(os.environ.get('ZODBREPL_TEST_PORTS', '16000'))
PORTS = range(FIRST_PORT, FIRST_PORT + 1500)
_untried_ports = itertools.cycle(random.sample(PORTS, len(PORTS)))

INDICO_CONF = '''
DBStorageURL = {folder!r} + '/zodb.conf'
DBOptions = {{'cache_size': 5000}}
BaseURL = 'http://localhost/indico'
BaseSecureURL = ''
AuthenticatorList = [('Local', {{}})]
SmtpServer = ('127.0.0.1', 1)
SmtpUseTLS = 'no'
ConfigurationDir = {folder!r}
LogDir = ArchiveDir = {folder!r}
UploadedFilesTempDir = SharedTempDir = TempDir = {folder!r}
XMLCacheDir = {folder!r} + '/cache'
HtdocsDir = {tree!r} + '/indico/htdocs'
CSRFLevel = 2
'''
LOGGING_CONF = '''
[loggers]
keys=root
[handlers]
keys=all
[formatters]
keys=plain
[logger_root]
level=WARNING
handlers=all
[handler_all]
class=FileHandler
level=WARNING
formatter=plain
args=('indico.log', 'a')
[formatter_plain]
format=%(asctime)s %(levelname)s %(name)s %(message)s
'''
FILE_STORAGE = '''
<filestorage>
  path {folder}/Data.fs
  read-only {read_only}
{blobs}</filestorage>
'''
CLIENT_STORAGE = '''
%import ZEO
<clientstorage>
  server 127.0.0.1:{port}
  storage 1
  wait-timeout 1
</clientstorage>
'''


class Question(AssertionError):
    """A question's process failed; its output is the message."""


class Site(object):
    """A folder with indico.conf, logging.conf, zodb.conf and, if it is a file, Data.fs."""

    def __init__(self, folder, data=None):
        self.folder = str(folder)
        for name in ('cache', 'log'):
            os.mkdir(os.path.join(self.folder, name))
        self.write('logging.conf', LOGGING_CONF)
        self.use_file()
        if data:
            shutil.copy(data, self.path('Data.fs'))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), 'w') as target:
            target.write(content)

    def use_file(self, read_only=False, blobs=False):
        self.write('zodb.conf', FILE_STORAGE.format(
            folder=self.folder, read_only='true' if read_only else 'false',
            blobs='  blob-dir %s\n' % self.path('blobs') if blobs else ''))

    def use_server(self, port):
        self.write('zodb.conf', CLIENT_STORAGE.format(port=port))

    def ask(self, tree, question, *args, **environment):
        """Asks a question with the Indico of `tree`.

        Raises Question when the process fails or does not end within PATIENCE seconds.
        """
        self.write('indico.conf', INDICO_CONF.format(folder=self.folder, tree=tree))
        env = dict(os.environ, PYTHONPATH=tree, INDICO_CONF=self.path('indico.conf'))
        env.update(environment)
        process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, 'scripts', question + '.py')]
            + [str(arg) for arg in args],
            cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        alarm = threading.Timer(PATIENCE, process.kill)
        alarm.start()
        try:
            output = process.communicate()[0]
        finally:
            alarm.cancel()
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode:
            raise Question('%s: exit status %s\n%s' % (question, process.returncode, output))
        return json.loads(output.strip().splitlines()[-1])


def copy_of(template, tmpdir_factory):
    """Returns a fresh copy of the filled site."""
    site = Site(tmpdir_factory.mktemp('site'), data=template.path('Data.fs'))
    site.ids = template.ids
    return site


def some_free_port():
    """Returns a TCP port of 127.0.0.1 that nothing uses; no port is given twice."""
    return next(port for port in _untried_ports if _is_free(port))


def _is_free(port):
    with contextlib.closing(socket.socket()) as probe:
        try:
            probe.bind(('127.0.0.1', port))
        except socket.error:
            return False
    return True
