"""Runs some of Indico's own unit tests in this process (Python 2.7).

    python job.py FOLDER XUNIT_FILE TEST...

FOLDER has zodb.conf, which names the storage, and gets everything the tests write. Indico's
own test command would start servers and a mail server of its own; this one gives the tests the same
surroundings on the storage it is told to use.
"""
import os
import smtplib
import sys
import types

import bcrypt
import nose

FOLDERS = ('log', 'archive', 'cache', 'tmp', 'etc')
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
format=%(asctime)s %(process)d %(levelname)s %(name)s %(message)s
'''


class NoMail(object):
    """Stands for an SMTP server that takes everything."""

    def __init__(self, *args, **options):
        pass

    def __getattr__(self, name):
        return lambda *args, **options: (220, '')


def replace_missing_packages():
    """Code coverage and browser tests of 2014 are imported, but not used, by the unit tests."""
    for name in ('figleaf', 'figleaf.annotate_html', 'selenium'):
        sys.modules[name] = types.ModuleType(name)
    sys.modules['figleaf'].annotate_html = sys.modules['figleaf.annotate_html']
    sys.modules['selenium'].webdriver = None


def configure(folder):
    """Gives Indico the configuration that its own test command gives it."""
    from indico.core.config import Config
    from indico.util.contextManager import ContextManager
    from MaKaC.common import TemplateExec
    from MaKaC.common.logger import Logger

    paths = {}
    for name in FOLDERS:
        paths[name] = os.path.join(folder, name)
        os.mkdir(paths[name])
    with open(os.path.join(paths['etc'], 'logging.conf'), 'w') as conf:
        conf.write(LOGGING_CONF)

    config = Config.getInstance()
    config.reset({
        'DBStorageURL': os.path.join(folder, 'zodb.conf'),
        'BaseURL': 'http://localhost:8000/indico', 'BaseSecureURL': '',
        'AuthenticatorList': [('Local', {})],
        'SmtpServer': ('127.0.0.1', 1), 'SmtpUseTLS': 'no',
        'HtdocsDir': config.getHtdocsDir(), 'ConfigurationDir': paths['etc'],
        'LogDir': paths['log'], 'XMLCacheDir': paths['cache'],
        'ArchiveDir': paths['archive'], 'UploadedFilesTempDir': paths['tmp']})
    Config.setInstance(config)
    TemplateExec.mako = TemplateExec._define_lookup()
    Logger.reset()
    ContextManager.set('test_env', True)


def hash_passwords_cheaply():
    """Each test creates five users; hashing their passwords took most of its time."""
    gensalt = bcrypt.gensalt
    bcrypt.gensalt = lambda rounds=4, prefix=b'2b': gensalt(4, prefix)


def main(folder, xunit_file, *tests):
    os.chdir(folder)
    replace_missing_packages()
    import indico.tests  # noqa: F401: defines what the tests' modules expect
    configure(folder)
    smtplib.SMTP = NoMail
    hash_passwords_cheaply()
    passed = nose.run(argv=[
        'nose', '--nologcapture', '--logging-clear-handlers', '--verbose',
        '--with-xunit', '--xunit-file', xunit_file] + list(tests))
    sys.stdout.flush()
    sys.stderr.flush()
    # Not by sys.exit(): a scheduler that failed to stop must not keep the process.
    os._exit(0 if passed else 1)


if __name__ == '__main__':
    main(*sys.argv[1:])
