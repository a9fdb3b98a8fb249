"""A majority of the hosts knows of a weak promise before the primary may give it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from two_hosts import TwoHosts, two_hosts

from indico_zodbrepl.cluster.model import Synchronous
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.keys import Sync
from indico_zodbrepl.host import acknowledging, kept_promises
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.promise import Promise

ALONE = Promise(3, "alone", 1, "fsync")


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[TwoHosts]:
    with two_hosts(tmp_path) as found:
        found.cluster = dataclasses.replace(found.cluster, synchronous=Synchronous(1))
        yield found


def test_what_a_primary_may_do_is_known_on_all_hosts(hosts: TwoHosts) -> None:
    host = host_of(hosts.cluster)
    assert host.agreed_promise(3) == Promise(3, "synchronous", 1, "fsync"), "as in the file"
    kept_promises.spread(hosts.cluster, host, ALONE)
    assert host.kept_promise("two") == ALONE
    assert host.agreed_promise(3) == ALONE
    assert host.agreed_promise(4) == Promise(4, "synchronous", 1, "fsync"), "of another primary"


def test_of_two_records_the_weaker_one_counts(hosts: TwoHosts) -> None:
    """A host that could not be reached still has the record of a better time."""
    host = host_of(hosts.cluster)
    kept_promises.write(hosts.cluster, Promise(3, "synchronous", 1, "fsync"))
    host.keep_promise("two", ALONE)
    assert host.agreed_promise(3) == ALONE


def test_a_record_of_an_earlier_epoch_replaces_no_later_one(hosts: TwoHosts) -> None:
    kept_promises.write(hosts.cluster, ALONE)
    kept_promises.write(hosts.cluster, Promise(2, "off", 0, "fsync"))
    assert kept_promises.read(hosts.cluster) == ALONE


def test_without_a_majority_no_primary_goes_on_alone_and_nothing_is_known(hosts: TwoHosts) -> None:
    hosts.stop()
    host = host_of(hosts.cluster)
    with pytest.raises(OperatorError, match="a majority of the hosts can't record"):
        kept_promises.spread(hosts.cluster, host, ALONE)
    assert host.agreed_promise(3) is None


def test_an_order_for_less_is_recorded_although_the_file_of_its_host_says_so_already(
    hosts: TwoHosts,
) -> None:
    """Somebody has edited that file, and not those of the other hosts."""
    edited = dataclasses.replace(hosts.cluster, synchronous=Synchronous(0))
    acknowledging._record(edited, Sync(3, 0, "fsync"), Sync(3, 1, "fsync"))
    assert host_of(hosts.cluster).agreed_promise(3) == Promise(3, "off", 0, "fsync")
