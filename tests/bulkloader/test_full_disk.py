"""A full disk ends a run with one message; what was committed stays, and the run can go on."""
import subprocess

import pytest

from homes import Home

COUNT = 150
COMMAND = '--conferences %d --contributions 0 --batch 30' % COUNT       # more than a small disk holds
SHORTER_COUNT = 30
SHORTER_COMMAND = '--conferences %d --contributions 0 --batch 15' % SHORTER_COUNT
FULL = [
    'NOTICE: the disk of the storage is full',
    'HINT: What was committed stays. Make room, then give the same command again: it goes on where '
    'it stopped.']


@pytest.fixture
def small_disk(tmpdir):
    """A folder on a filesystem of 7 MB."""
    folder = tmpdir.ensure('disk', dir=True)
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=7m', 'tmpfs', str(folder)]
    try:
        if subprocess.call(mount, stderr=subprocess.STDOUT, stdout=open('/dev/null', 'w')):
            pytest.skip('only root can mount a small disk')
    except OSError:
        pytest.skip('there is no program mount')
    try:
        yield folder
    finally:
        subprocess.check_call(['umount', '--lazy', str(folder)])


@pytest.fixture
def home_on_a_small_disk(small_disk, empty_indico):
    home = Home(small_disk.join('home'))
    empty_indico.copy(home.data)
    yield home
    home.close()


def assert_full(result):
    lines = result.text.splitlines()
    assert (9, FULL) == (result.code, [lines[-3], lines[-1]])
    assert 'Traceback' not in result.text


def assert_can_go_on(home):
    found = home.bulkload('verify --json').json
    assert [] == found['problems']
    assert 0 < found['conferences'] < COUNT
    assert '' == home.maintenance_problems()


def assert_goes_on(home, command, count):
    result = home.bulkload(command)
    assert 0 == result.code, result.text
    found = home.bulkload('verify --json').json
    assert (count, True) == (found['conferences'], found['complete'])


def test_a_full_disk_ends_a_run_that_can_go_on(home_on_a_small_disk, small_disk):
    home = home_on_a_small_disk
    assert_full(home.bulkload(COMMAND))
    assert_can_go_on(home)
    subprocess.check_call(['mount', '-o', 'remount,size=100m', str(small_disk)])
    assert_goes_on(home, COMMAND, COUNT)


@pytest.mark.parametrize('method', [
    'bulk', pytest.param('model', marks=pytest.mark.exhaustive)])
def test_a_transaction_that_finds_no_room_is_not_there(home, method):
    """/dev/full takes the place of the file in which a transaction is gathered."""
    gathered = home.folder.join('Data.fs.tmp')
    gathered.mksymlinkto('/dev/full')
    assert_full(home.bulkload('%s --method %s' % (SHORTER_COMMAND, method)))
    gathered.remove()
    assert_goes_on(home, SHORTER_COMMAND, SHORTER_COUNT)


def test_a_server_whose_disk_is_full_is_one_message(zeo_home):
    gathered = zeo_home.folder.join('Data.fs.tmp')
    gathered.mksymlinkto('/dev/full')
    server = zeo_home.serve()
    assert_full(zeo_home.bulkload(SHORTER_COMMAND))
    server.terminate()
    gathered.remove()
    zeo_home.serve()
    assert_goes_on(zeo_home, SHORTER_COMMAND, SHORTER_COUNT)
