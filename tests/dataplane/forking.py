"""Imports libraries once and runs Python programs in forks of itself.

    python forking.py indico|server

indico: Indico, as the environment configures it; each program gets the configuration that its own
environment names. server: what a storage server imports, and what clients of it do.

Reads one program a line as JSON: {"args": what would follow `python` on a command line, "env": its
environment, "cwd": its folder, "out", "err": paths of files that get its output}. Each program runs
at once, in a session of its own. Prints as JSON ["started", pid] when one runs, and ["ended", pid,
status as of os.waitpid] when it has ended. Ends with its standard input.

The programs themselves are not imported here: some change a library before they import the rest.
"""
import atexit
import errno
import fcntl
import json
import os
import random
import runpy
import select
import signal
import sys
import threading
import traceback
import types


def import_indico():
    """Imports Indico; returns the function that has a fork read another indico.conf."""
    import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
    import indico_zodbrepl.dataplane.indico.prewarm  # noqa: F401
    import MaKaC.conference  # noqa: F401
    import MaKaC.webinterface.rh.categoryDisplay  # noqa: F401
    import ZEO.ClientStorage  # noqa: F401
    import ZODB.config  # noqa: F401
    from indico.core.config import Config
    from MaKaC.common.logger import Logger

    def configure():
        """Has Indico read indico.conf anew and open the log files that it names."""
        del sys.modules['MaKaC.common.MaKaCConfig'], MaKaC.common.MaKaCConfig
        Config.setInstance(None)
        Logger.reset()
    return configure


def import_server():
    """Imports what a storage server does, but not Twisted's reactor, of which forks have their own."""
    import zc.zrs.primary  # noqa: F401
    from indico_zodbrepl.dataplane.programs.distributions import without_pkg_resources
    with without_pkg_resources():
        import ZEO.runzeo  # noqa: F401
        import indico_zodbrepl.dataplane.server.storage_server  # noqa: F401
    import indico_zodbrepl.dataplane.server.control  # noqa: F401
    import indico_zodbrepl.dataplane.server.shutdown  # noqa: F401
    import indico_zodbrepl.dataplane.zrs.links  # noqa: F401
    import ZEO.ClientStorage  # noqa: F401
    import ZODB.config  # noqa: F401
    assert 'twisted.internet.reactor' not in sys.modules
    return lambda: None


def run(args):
    """Runs a module, a script or a text as `python` does; returns the exit code."""
    try:
        if args[0] == '-m':
            sys.argv, sys.path[0] = args[1:], ''
            runpy.run_module(args[1], run_name='__main__', alter_sys=True)
        elif args[0] == '-c':
            sys.argv, sys.path[0] = ['-c'] + args[2:], ''
            main = sys.modules['__main__'] = types.ModuleType('__main__')
            exec(compile(args[1], '<string>', 'exec', 0, True), vars(main))
        else:
            sys.argv, sys.path[0] = args, os.path.dirname(args[0])
            runpy.run_path(args[0], run_name='__main__')
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write('%s\n' % end.code)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def perform(program, configure):
    """In the fork: runs the program and ends the process."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    random.seed()
    appended = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    files = [os.open(os.devnull, os.O_RDONLY), os.open(program['out'], appended, 0o666),
             os.open(program['err'], appended, 0o666)]
    tell('started', os.getpid())
    for target, source in enumerate(files):
        os.dup2(source, target)
        os.close(source)
    code = 1
    try:
        os.chdir(program['cwd'])
        os.environ.clear()
        os.environ.update(program['env'])
        configure()
        code = run(program['args'])
        threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xff)


def tell(*values):
    os.write(1, json.dumps(values) + '\n')


def encoded(value):
    """The value with each text as bytes."""
    if isinstance(value, dict):
        return dict((encoded(key), encoded(each)) for key, each in value.items())
    if isinstance(value, list):
        return [encoded(each) for each in value]
    return value.encode('utf-8')


def tell_of_ended():
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except OSError as error:
            if error.errno != errno.ECHILD:
                raise
            return
        if not pid:
            return
        tell('ended', pid, status)


def main():
    configure = {'indico': import_indico, 'server': import_server}[sys.argv[1]]()
    ended, end = os.pipe()
    for each in (ended, end):
        fcntl.fcntl(each, fcntl.F_SETFL, os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(end)
    received = ''
    while True:
        try:
            ready = select.select([0, ended], [], [])[0]
        except select.error as error:
            if error.args[0] != errno.EINTR:
                raise
            continue
        if ended in ready:
            os.read(ended, 100)
            tell_of_ended()
        if 0 in ready:
            more = os.read(0, 65536)
            if not more:
                return
            lines = (received + more).split('\n')
            received = lines.pop()
            for line in lines:
                if not os.fork():
                    os.close(ended)
                    os.close(end)
                    perform(encoded(json.loads(line)), configure)


if __name__ == '__main__':
    main()
