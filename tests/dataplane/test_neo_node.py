"""How a process of a NEO cluster starts, and how it is told from others."""
import json
import os
import sqlite3

import pytest

from indico_zodbrepl.dataplane.neo import process as node, orders, process as process_mark

from neo_clusters import NEOCluster
from processes import PATIENCE, wait_for


def journal_mode(path):
    connection = sqlite3.connect(str(path))
    try:
        return connection.execute('PRAGMA journal_mode').fetchone()[0]
    finally:
        connection.close()


def test_a_new_database_of_a_storage_writes_ahead(tmpdir):
    path = tmpdir.join('neo.sqlite')
    assert 'delete' == journal_mode(tmpdir.join('other.sqlite'))
    node.write_ahead(str(path))
    assert 'wal' == journal_mode(path)


def test_a_database_with_data_keeps_them_when_it_begins_to_write_ahead(tmpdir):
    path = tmpdir.join('neo.sqlite')
    connection = sqlite3.connect(str(path))
    connection.execute('CREATE TABLE trans (tid INTEGER)')
    connection.execute('INSERT INTO trans VALUES (7)')
    connection.commit()
    connection.close()
    node.write_ahead(str(path))
    connection = sqlite3.connect(str(path))
    assert [(7,)] == connection.execute('SELECT * FROM trans').fetchall()
    assert 2 == connection.execute('PRAGMA synchronous').fetchone()[0]  # FULL
    connection.close()


def test_a_database_that_can_not_write_ahead_is_an_error(monkeypatch):
    """Such as one in memory; a storage that is silently slower would be worse."""
    with pytest.raises(sqlite3.OperationalError):
        node.write_ahead(':memory:')


def test_a_storage_whose_disk_is_not_mounted_does_not_start(tmpdir, capsys):
    with pytest.raises(SystemExit) as raised:
        node.main(['storage', str(tmpdir.join('missing'))])
    assert 2 == raised.value.code
    assert 'is no folder' in capsys.readouterr()[1]


def test_a_master_needs_the_masters_on_its_command_line_though_its_file_has_them(
        processes, tmpdir):
    """So every command that `backends.neo` makes has -m."""
    conf = tmpdir.join('neo.conf')
    conf.write('[DEFAULT]\ncluster: tested\nmasters: 127.0.0.1:1\n[m0]\nbind: 127.0.0.1:1\n')
    process = processes.start(['python', '-m', 'indico_zodbrepl.dataplane.neo.process', 'master',
                               str(tmpdir), '-f', str(conf), '-s', 'm0'])
    assert 2 == process.wait()
    assert '-m/--masters: value is empty' in process.output()


def test_two_new_storages_to_which_two_masters_gave_one_id_both_come_in(tmpdir):
    """As on a busy machine, where for a moment each master takes itself for the leading one."""
    cluster = NEOCluster(tmpdir)
    try:
        cluster.start('m0', 'a', 's0')
        wait_for(lambda: nid(cluster, 's0'), 'an id of s0')
        cluster.running['s0'].kill()
        for path in cluster.data('s0').listdir(lambda path: path.check(fnmatch='neo.sqlite*')):
            path.copy(cluster.data('s1').join(path.basename))
        assert nid(cluster, 's0') == nid(cluster, 's1')
        cluster.start('s0', 's1')
        with cluster.control() as control:
            orders.start(control, [cluster.addresses[each] for each in cluster.storages], PATIENCE)
        cluster.wait_until_whole()
        assert nid(cluster, 's0') != nid(cluster, 's1')
    finally:
        cluster.close()


def nid(cluster, name):
    """The id that a storage has kept, or None."""
    connection = sqlite3.connect(str(cluster.data(name).join('neo.sqlite')))
    try:
        found = connection.execute("SELECT value FROM config WHERE name = 'nid'").fetchone()
    except sqlite3.OperationalError:  # there is no table yet
        return None
    finally:
        connection.close()
    return found and int(found[0])


def test_this_process_is_found_by_its_mark_and_a_later_one_of_its_number_is_not(tmpdir):
    process_mark.write(str(tmpdir))
    assert os.getpid() == process_mark.running(str(tmpdir))
    mark = json.loads(tmpdir.join(process_mark.NAME).read())
    mark['started'] += 1
    tmpdir.join(process_mark.NAME).write(json.dumps(mark))
    assert process_mark.running(str(tmpdir)) is None
    assert process_mark.kill(str(tmpdir)) is None


def test_a_folder_without_a_mark_has_no_process(tmpdir):
    assert process_mark.running(str(tmpdir)) is None
    assert process_mark.running(str(tmpdir.join('on another host'))) is None


def test_a_file_that_is_no_mark_is_an_error(tmpdir):
    tmpdir.join(process_mark.NAME).write('[]')
    with pytest.raises(ValueError):
        process_mark.running(str(tmpdir))


def test_the_marked_process_is_ended_even_when_it_is_frozen(processes, tmpdir):
    process = processes.start(['python', '-c', (
        'from indico_zodbrepl.dataplane.neo import process as process_mark\n'
        'import time\nprocess_mark.write(%r)\ntime.sleep(600)\n') % str(tmpdir)])
    wait_for(lambda: process_mark.running(str(tmpdir)), 'the mark')
    process.pause()
    assert process.pid == process_mark.kill(str(tmpdir))
    assert -9 == process.wait()
    assert process_mark.running(str(tmpdir)) is None
