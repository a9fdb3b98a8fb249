"""A server tells of writes that its disk does not take, until it takes one."""
import subprocess

import pytest

from nodes import Node, commit
from processes import wait_for


@pytest.fixture
def small_disk(tmpdir):
    """A folder on a filesystem of 8 MB."""
    folder = tmpdir.ensure('disk', dir=True)
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', str(folder)]
    if subprocess.call(mount):
        pytest.skip('only root can mount a small disk')
    try:
        yield folder
    finally:
        subprocess.check_call(['umount', '--lazy', str(folder)])


def fill(folder):
    ballast = folder.join('ballast')
    with pytest.raises(IOError):
        with open(str(ballast), 'ab', 0) as stream:
            while True:
                stream.write(b'\0' * 4096)
    return ballast


def test_a_primary_counts_failed_commits_until_one_is_written(
        processes, tmpdir, small_disk):
    node = Node(processes, small_disk, 'a', listens=True)
    node.start()
    client = node.client()
    commit(client)
    assert node.status()['write_failure'] is None
    ballast = fill(small_disk)
    for _ in range(2):
        with pytest.raises(Exception):
            commit(client, b'x' * 8192)
    failure = node.status()['write_failure']
    assert ('No space left on device', 2) == (
        failure['error'], failure['count'])
    ballast.remove()
    commit(client, b'x' * 8192)
    assert node.status()['write_failure'] is None


def test_a_secondary_tells_that_it_cannot_write_and_goes_on_when_there_is_room(
        processes, tmpdir, small_disk):
    primary = Node(processes, tmpdir, 'a', listens=True)
    primary.start()
    node = Node(processes, small_disk, 'b', upstream=primary)
    node.start()
    primary.wait_for_followers()
    ballast = fill(small_disk)
    client = primary.client()
    commit(client, b'x' * 8192)
    wait_for(lambda: node.status()['write_failure'] is not None,
             'the secondary tells of a failed write')
    assert 'No space left on device' == node.status()[
        'write_failure']['error']
    assert node.control(do='status')['write_failure'] is not None
    ballast.remove()
    node.wait_for_tid(primary.last_tid())
    assert node.status()['write_failure'] is None
