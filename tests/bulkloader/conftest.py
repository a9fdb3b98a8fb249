"""Fixtures of the bulk loader's tests (Python 2.7): Indicos with and without data."""
import sys
from contextlib import closing

import pytest

from homes import ROOT, SMALL, ZEO_CLIENT, ZEO_SERVER, Home, loaded_home
from processes import FORKED, Processes, free_ports

sys.path.insert(0, str(ROOT))

from equivalent import ALL_KINDS, EVENTS_BEFORE, Pair, by  # noqa: E402  (needs the line above)


@pytest.fixture(scope='session', autouse=True)
def templates(tmpdir_factory):
    """Indico's templates are compiled once for all homes, and Indico is imported once."""
    Home.templates = tmpdir_factory.mktemp('templates')
    Home.imported = True


@pytest.fixture(scope='session')
def empty_indico(tmpdir_factory):
    """A Data.fs as the first run leaves it; copied, never changed."""
    with closing(Home(tmpdir_factory.mktemp('empty'))) as home:
        home.first_run()
        return home.data


@pytest.fixture(scope='session')
def small_indico(tmpdir_factory, empty_indico):
    """A Data.fs with the complete run of SMALL; copied, never changed."""
    with loaded_home(tmpdir_factory.mktemp('small'), empty_indico, SMALL) as home:
        return home.data


@pytest.fixture(scope='session')
def used_indico(tmpdir_factory, empty_indico):
    """The Data.fs of an Indico that has events already, each made by a commit of its own."""
    with closing(Home(tmpdir_factory.mktemp('used'))) as home:
        empty_indico.copy(home.data)
        result = home.script('make_other_events.py', EVENTS_BEFORE)
        assert 0 == result.code, result.text
        return home.data


@pytest.fixture(scope='session')
def made(tmpdir_factory):
    """Makes an Indico with a copy of some data and loads it in a way."""
    homes = []

    def make(data, way=None, **options):
        homes.append(Home(tmpdir_factory.mktemp('made'), **options))
        data.copy(homes[-1].data)
        if way is not None:
            way(homes[-1])
        return homes[-1]

    yield make
    for home in homes:
        home.close()


@pytest.fixture(scope='session')
def pair(made, used_indico):
    """All kinds of events beside others, made by Indico's own calls and in bulk; not changed."""
    return Pair(made(used_indico, by('model', ALL_KINDS)),
                made(used_indico, by('bulk', ALL_KINDS, '--batch 17')))


@pytest.fixture
def new_home(tmpdir, empty_indico):
    """Makes homes on a FileStorage of their own, each after the first run."""
    homes = []

    def make(name='home', **options):
        homes.append(Home(tmpdir.join(name), **options))
        empty_indico.copy(homes[-1].data)
        return homes[-1]

    yield make
    for home in homes:
        home.close()


@pytest.fixture
def home(new_home):
    return new_home()


@pytest.fixture
def blank_home(tmpdir):
    """A home without any storage yet."""
    with closing(Home(tmpdir.join('blank'))) as home:
        yield home


@pytest.fixture
def processes(tmpdir):
    started = Processes(tmpdir)
    try:
        yield started
    finally:
        started.close()


class ZeoHome(Home):
    """A Home whose storage a ZEO server holds."""

    def __init__(self, folder, processes):
        self._processes = processes
        self._port, = free_ports(1)
        Home.__init__(self, folder, ZEO_CLIENT.format(port=self._port))

    def serve(self, read_only=False):
        """Starts the server (again); returns its Process."""
        conf = self.folder.join('zeo.conf')
        conf.write(ZEO_SERVER.format(
            port=self._port, folder=self.folder, read_only=str(read_only).lower()))
        return self._processes.start(
            [FORKED, '-m', 'ZEO.runzeo', '-C', str(conf)], 'zeo', self._port)


@pytest.fixture
def zeo_home(tmpdir, empty_indico, processes):
    """An Indico after the first run behind a ZEO server that is not started yet."""
    with closing(ZeoHome(tmpdir.join('zeo'), processes)) as home:
        empty_indico.copy(home.data)
        yield home
