"""Whatever ends a run, giving the same command again finishes it: no duplicate, no gap."""
import signal
import time

import pytest

from bulkloader.specification import Parameters, Specification
from homes import FILE_STORAGE, SMALL, Result
from processes import wait_for

COMMAND = '--conferences 60 --contributions 3 --categories 2 --batch 5'
SHORTER_COMMAND = COMMAND.replace('60', '20')
PARAMETERS = Parameters(60, 3, 2, 50, 1)
BATCH_BYTES = 200000     # about what a batch of COMMAND adds to Data.fs


def wait_for_growth(home, loader, batches):
    """Waits until the loader has committed a few batches; it must still be running."""
    enough = home.data.size() + batches * BATCH_BYTES
    wait_for(lambda: home.data.size() > enough or not loader.is_running(), 'growth of Data.fs')
    assert loader.is_running(), loader.output()


def assert_complete(home, count=60):
    found = home.script('contents.py').json
    wanted = Specification(PARAMETERS._replace(conferences=count))
    assert [wanted.conference(index).title for index in range(count)] == [
        each['title'] for each in found['conferences']]
    assert (count, 3 * count, 3 * count, 0, []) == tuple(found['verified'][key] for key in (
        'conferences', 'contributions', 'schedule_entries', 'others', 'problems'))


def kill_twice_and_finish(home):
    for batches, moment in ((2, 0.0), (1, 0.07)):
        loader = home.start_bulkload(COMMAND)
        wait_for_growth(home, loader, batches)
        time.sleep(moment)
        loader.kill()
    result = home.bulkload(COMMAND)
    assert 0 == result.code, result.text
    assert 'Going on: ' in result.text


@pytest.mark.exhaustive
def test_a_run_killed_twice_on_a_file_storage_is_finished(home):
    kill_twice_and_finish(home)
    assert_complete(home)
    assert '' == home.maintenance_problems()


def test_a_run_killed_twice_over_zeo_is_finished(zeo_home):
    zeo_home.serve()
    kill_twice_and_finish(zeo_home)
    assert_complete(zeo_home)


@pytest.mark.parametrize('which', [
    signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)])
def test_an_interrupt_ends_a_run_in_order(home, which):
    loader = home.start_bulkload(COMMAND)
    wait_for_growth(home, loader, 1)
    loader.signal(which)
    ended = Result(loader)
    assert 130 == ended.code
    notice, detail, hint = ended.text.splitlines()[-3:]
    assert 'NOTICE: interrupted' == notice
    assert 'HINT: give the same command again: it goes on where it stopped' == hint
    done = int(detail.split()[1])
    assert 'DETAIL: %d of 60 conferences are committed' % done == detail
    found = home.bulkload('verify --json')
    assert (1, done, 3 * done, []) == (found.code,) + tuple(
        found.json[key] for key in ('conferences', 'contributions', 'problems'))
    assert 0 == home.bulkload(COMMAND).code
    assert_complete(home)


@pytest.mark.parametrize('first, second', [
    ('bulk', 'model'), pytest.param('model', 'bulk', marks=pytest.mark.exhaustive)])
def test_a_run_begun_by_one_method_is_finished_by_the_other(home, first, second):
    loader = home.start_bulkload('%s --method %s' % (COMMAND, first))
    wait_for_growth(home, loader, 1)
    loader.kill()
    result = home.bulkload('%s --method %s' % (COMMAND, second))
    assert 0 == result.code, result.text
    assert 'Going on: ' in result.text
    assert_complete(home)
    assert '' == home.maintenance_problems()


def test_another_run_is_refused_while_one_is_unfinished(home):
    loader = home.start_bulkload(COMMAND)
    wait_for_growth(home, loader, 1)
    loader.kill()
    result = home.bulkload('--conferences 61 --contributions 3')
    assert 4 == result.code
    assert [
        'NOTICE: another run is unfinished',
        'HINT: finish it with: bin/bulkload --conferences 60 --contributions 3 --categories 2 '
        '--rooms 50 --seed 1'] == result.text.splitlines()[::2]
    assert 4 == home.bulkload('--conferences 61 --contributions 3 --add').code


def test_a_storage_that_goes_away_ends_a_run_that_can_go_on(zeo_home):
    server = zeo_home.serve()
    loader = zeo_home.start_bulkload(COMMAND)
    wait_for_growth(zeo_home, loader, 1)
    server.kill()
    ended = Result(loader)
    assert 6 == ended.code, ended.text
    assert 'NOTICE: the storage is away' in ended.text.splitlines()
    assert 'Traceback' not in ended.text
    zeo_home.serve()
    assert 0 == zeo_home.bulkload(COMMAND).code
    assert_complete(zeo_home)


def test_a_storage_that_is_known_to_be_away_is_not_called_read_only(zeo_home):
    """ZEO may take a client for read-only that has just lost its server."""
    server = zeo_home.serve()
    result = zeo_home.script('losing_the_server.py', server.pid)
    assert (0, '6') == (result.code, result.text.splitlines()[-1]), result.text


def test_a_storage_that_is_away_from_the_start_is_one_message(zeo_home):
    ended = zeo_home.bulkload(COMMAND)
    assert (6, 'NOTICE: the storage is away') == (ended.code, ended.text.splitlines()[0])


def test_a_read_only_storage_is_one_message_and_can_be_verified(zeo_home, small_indico):
    small_indico.copy(zeo_home.data)
    zeo_home.serve(read_only=True)
    ended = zeo_home.bulkload(SMALL + ' --add')
    assert (7, 'NOTICE: the storage is read-only') == (ended.code, ended.text.splitlines()[0])
    assert 0 == zeo_home.bulkload('verify').code


def test_verify_of_an_empty_read_only_storage_finds_no_run(zeo_home):
    zeo_home.serve().terminate()
    zeo_home.data.remove()
    zeo_home.serve().terminate()
    zeo_home.serve(read_only=True)
    result = zeo_home.bulkload('verify --json')
    assert (1, 0) == (result.code, result.json['runs'])


def test_a_data_file_that_a_server_holds_is_refused(zeo_home):
    zeo_home.serve()
    zeo_home.folder.join('zodb.conf').write(FILE_STORAGE.format(folder=zeo_home.folder))
    result = zeo_home.bulkload(COMMAND)
    assert (6, 'NOTICE: another process holds the storage') == (
        result.code, result.text.splitlines()[0])


def test_verify_reads_a_storage_that_a_server_holds(zeo_home, small_indico):
    """FileStorage takes no lock when it is opened read-only, as verify does."""
    small_indico.copy(zeo_home.data)
    zeo_home.serve()
    conf = zeo_home.folder.join('file.conf')
    conf.write('<filestorage>\n path %s\n</filestorage>\n' % zeo_home.data)
    assert 3 == zeo_home.bulkload('verify --json --storage-conf %s' % conf).json['conferences']


def test_two_loaders_at_once_share_one_run(zeo_home):
    zeo_home.serve()
    loaders = [zeo_home.start_bulkload(COMMAND) for _ in range(2)]
    assert [0, 0] == [Result(loader).code for loader in loaders]
    assert_complete(zeo_home)
    assert '' == zeo_home.maintenance_problems()


def test_a_batch_that_conflicts_is_made_again(home):
    result = home.script('conflicts.py', 2, *SHORTER_COMMAND.split())
    assert 0 == result.code, result.text
    assert_complete(home, 20)


def test_too_many_conflicts_end_a_run_that_can_go_on(home):
    result = home.script('conflicts.py', 1000, *SHORTER_COMMAND.split())
    assert (8, 'NOTICE: other writers were faster 10 times in a row') == (
        result.code, result.text.splitlines()[-3])
    assert 0 == home.bulkload(SHORTER_COMMAND).code
    assert_complete(home, 20)
