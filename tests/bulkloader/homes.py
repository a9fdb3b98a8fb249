"""Indicos for tests: a folder with indico.conf and a storage, used by real processes."""
import contextlib
import json
import os
import sys

import py

ROOT = py.path.local(__file__).dirpath().dirpath().dirpath()
SCRIPTS = py.path.local(__file__).dirpath().join('scripts')
sys.path.insert(0, str(ROOT.join('tests', 'dataplane')))

from processes import FORKED_INDICO, Process  # noqa: E402  (needs the line above)

_INDICO_CONF = """
import os

import indico

HtdocsDir = os.path.join(os.path.dirname(indico.__file__), 'htdocs')
DBStorageURL = '{folder}/zodb.conf'
DBOptions = {{'cache_size': 20000}}
BaseURL = 'http://localhost/indico'
BaseSecureURL = ''
ConfigurationDir = '{folder}/etc'
LogDir = '{folder}/log'
UploadedFilesTempDir = '{folder}/tmp'
XMLCacheDir = '{folder}/cache'
ArchiveDir = '{folder}/archive'
AuthenticatorList = [('Local', {{}})]
SmtpServer = ('127.0.0.1', {smtp_port})
SmtpUseTLS = 'no'
SupportEmail = 'support@conference.invalid'
"""

_LOGGING_CONF = """
[loggers]
keys=root

[handlers]
keys=other

[formatters]
keys=defaultFormatter

[logger_root]
level=WARNING
handlers=other

[handler_other]
class=FileHandler
level=WARNING
formatter=defaultFormatter

[formatter_defaultFormatter]
format=%(asctime)s  %(levelname)-7s  %(name)-25s %(message)s
"""

FILE_STORAGE = """
<filestorage>
  path {folder}/Data.fs
</filestorage>
"""

# With a quota the bulk loader leaves it to FileStorage to write each record, as to any other storage.
LIMITED_FILE_STORAGE = """
<filestorage>
  path {folder}/Data.fs
  quota 1000GB
</filestorage>
"""

ZEO_CLIENT = """
%import indico_zodbrepl.dataplane
%import ZEO
<indicostorage>
  <clientstorage>
    server 127.0.0.1:{port}
    storage 1
    read-only-fallback true
    wait-timeout 2
  </clientstorage>
</indicostorage>
"""

ZEO_SERVER = """
<zeo>
  address 127.0.0.1:{port}
</zeo>
<filestorage 1>
  path {folder}/Data.fs
  read-only {read_only}
</filestorage>
"""


SMALL = '--conferences 3 --contributions 1'      # a run in which amounts prove nothing


class Result(object):
    """How a process ended: exit code and what it wrote to standard output and error."""

    def __init__(self, process):
        self.code = process.wait()
        self.text = process.output().decode('utf-8')

    @property
    def json(self):
        """The last line, decoded."""
        return json.loads(self.text.splitlines()[-1])


class Home(object):
    """One Indico: its configuration, its data, and commands that work on it.

    Args:
        folder: a py.path.local, made if missing.
        storage: text of zodb.conf; may have {folder}.
        smtp_port: where Indico would send mail to.

    Attributes:
        templates: a folder for the compiled templates of all homes; without it each has its own.
        imported: if true, commands that run to their end are forks of a process that has imported
            Indico.
    """

    templates = None
    imported = False

    def __init__(self, folder, storage=FILE_STORAGE, smtp_port=1):
        self.folder = folder
        self._started = []
        for name in ('etc', 'log', 'cache', 'tmp', 'archive'):
            folder.ensure(name, dir=True)
        if self.templates is not None:
            folder.join('tmp', 'mako_modules').mksymlinkto(self.templates)
        folder.join('indico.conf').write(_INDICO_CONF.format(folder=folder, smtp_port=smtp_port))
        folder.join('etc', 'logging.conf').write(_LOGGING_CONF)
        folder.join('zodb.conf').write(storage.format(folder=folder))

    @property
    def data(self):
        return self.folder.join('Data.fs')

    def start(self, *args):
        """Starts Python with these arguments; returns the Process."""
        return self._start('python', args)

    def _start(self, python, args):
        process = Process([python] + [str(arg) for arg in args], self._next_log(),
                          self.environment())
        self._started.append(process)
        return process

    def run(self, *args):
        """Runs Python with these arguments to its end; returns the `Result`.

        Indico is imported already; see `imported`.
        """
        return Result(self._start(FORKED_INDICO if self.imported else 'python', args))

    def environment(self):
        """The environment of all that is run at this home."""
        return dict(os.environ, INDICO_CONF=str(self.folder.join('indico.conf')),
                    PYTHONPATH=str(ROOT))

    def _next_log(self):
        return self.folder.join('process-%d.log' % len(self._started))

    def close(self):
        """Ends whatever still runs."""
        for process in self._started:
            if process.is_running():
                process.kill()

    def start_bulkload(self, command):
        """Starts the loader as bin/bulkload does; returns the Process."""
        return self.start('-m', 'bulkloader', *command.split())

    def bulkload(self, command):
        """Runs the loader to its end; returns the `Result`."""
        return self.run('-m', 'bulkloader', *command.split())

    def script(self, name, *args):
        """Runs one of the scripts beside the tests."""
        return self.run(SCRIPTS.join(name), *args)

    def first_run(self):
        """Creates the root category and an administrator."""
        admin = self.folder.join('admin.json')
        admin.write(json.dumps({
            'login': 'admin', 'password': 'only for this test', 'first_name': 'Ada',
            'last_name': 'Min', 'email': 'admin@conference.invalid'}))
        os.chmod(str(admin), 0o600)
        result = self.run('-m', 'indico_zodbrepl.dataplane.indico.firstrun', '--admin-file', admin)
        assert 0 == result.code, result.text

    def maintenance_problems(self):
        """What Indico's own two integrity scripts report; '' when nothing."""
        result = self.script('maintenance.py', 'indexes/all_index_check.py',
                             'category_integrity.py')
        return result.text + ('exit code %d' % result.code if result.code else '')


@contextlib.contextmanager
def loaded_home(folder, data, command):
    """Yields a home in a folder with a copy of some data, into which `bulkload` loaded more."""
    with contextlib.closing(Home(folder)) as home:
        data.copy(home.data)
        result = home.bulkload(command)
        assert 0 == result.code, result.text
        yield home
