"""The programs that commit under observation and that read from the disk."""
import json
import os
import subprocess
import sys

import pytest
import ZODB.config
from ZODB.DB import DB
from ZODB.MappingStorage import MappingStorage

from bench_programs import answered, in_a_file
from indico_zodbrepl.dataplane.benchmarks import cold_reads, commits


@pytest.fixture
def configuration(tmpdir):
    return in_a_file(tmpdir)


def keys(configuration):
    db = DB(ZODB.config.storageFromURL(configuration))
    try:
        return list(db.open().root())
    finally:
        db.close()


def test_as_many_transactions_are_committed_as_wanted_and_nothing_stays(configuration):
    window, = answered('commits', configuration, '--count', 7, '--pool', 3)['windows']
    assert (7, 7, 0) == (window['commits'], sum(window['slices']), window['conflicts'])
    assert window['latency_ms']['p50'] > 0
    assert [] == keys(configuration)


def test_objects_may_be_kept(configuration):
    answered('commits', configuration, '--count', 1, '--pool', 3, '--keep')
    assert 1 == len(keys(configuration))


def test_commits_are_made_until_time_is_up(configuration):
    window, = answered('commits', configuration, '--seconds', 0.2)['windows']
    assert window['seconds'] >= 0.2
    assert window['rate'] == pytest.approx(window['commits'] / window['seconds'], rel=0.01)


def started(configuration, *arguments):
    return subprocess.Popen(
        [sys.executable, '-m', 'indico_zodbrepl.dataplane.benchmarks.commits', configuration]
        + list(arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def told(process, orders):
    """Returns what it prints once it is ready and was given all orders."""
    try:
        assert 'ready\n' == process.stdout.readline()
        output, _ = process.communicate(orders)
    finally:
        if process.poll() is None:
            process.kill()
    return output


def test_each_order_begins_another_window(configuration):
    process = started(configuration)
    output = told(process, 'go\nnext\nnext\nend\n')
    assert 0 == process.returncode
    assert 3 == len(json.loads(output)['windows'])


def test_without_a_limit_it_ends_with_its_input(configuration):
    output = told(started(configuration), 'go\n')
    assert 1 == len(json.loads(output)['windows'])


def test_after_its_answer_it_waits_before_it_cleans_up(configuration, tmpdir):
    process = started(configuration, '--count', '2')
    try:
        assert 'ready\n' == process.stdout.readline()
        process.stdin.write('go\n')
        process.stdin.flush()
        assert 2 == json.loads(process.stdout.readline())['windows'][0]['commits']
        size = os.path.getsize(str(tmpdir.join('Data.fs')))
        process.stdin.close()
        assert 0 == process.wait()
        assert size < os.path.getsize(str(tmpdir.join('Data.fs')))
    finally:
        if process.poll() is None:
            process.kill()


def test_objects_are_large_as_wanted_and_compress_to_about_a_half():
    text = commits.filler(4001)
    assert 4001 == len(text)
    assert 0.4 < len(text.encode('zlib')) / 4001.0 < 0.7


def test_what_is_read_is_made_once(configuration, tmpdir):
    assert 50 == answered('cold_reads', configuration, '--fill', '--objects', 50)['objects']
    size = os.path.getsize(str(tmpdir.join('Data.fs')))
    assert 50 == answered('cold_reads', configuration, '--fill', '--objects', 50)['objects']
    assert size == os.path.getsize(str(tmpdir.join('Data.fs')))


def test_reads_go_over_all_objects_again_and_again(configuration, tmpdir):
    answered('cold_reads', configuration, '--fill', '--objects', 50)
    found = answered('cold_reads', configuration, '--seconds', 0.2, '--folder', str(tmpdir))
    assert found['passes'] >= 1
    assert found['reads'] == sum(found['slices'])
    assert found['dropped_files'] >= 1


def test_each_pass_loads_every_object_from_the_storage(monkeypatch):
    storage = MappingStorage()
    db = DB(storage, cache_size=1000)
    connection = db.open()
    commits.make(connection.root(), cold_reads.NAME, 10, 100)
    objects = list(connection.root()[cold_reads.NAME])
    monkeypatch.setattr(cold_reads, 'drop_pages', lambda folder: (0, 0))
    loaded, activate = [], cold_reads.activate

    def observed(each):
        loaded.append(each._p_changed)
        return activate(each)
    monkeypatch.setattr(cold_reads, 'activate', observed)
    cold_reads.read(connection, objects, 0.01, None)
    assert {None} == set(loaded)
    assert loaded
    db.close()


def test_files_in_subfolders_are_dropped_too_and_sockets_are_left_alone(tmpdir):
    tmpdir.mkdir('a').join('Data.fs').write('x' * 10000)
    tmpdir.join('b').write('y')
    os.mkfifo(str(tmpdir.join('pipe')))
    assert (2, 0) == cold_reads.drop_pages(str(tmpdir))
