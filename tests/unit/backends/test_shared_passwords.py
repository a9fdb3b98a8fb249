"""Passwords of database users in a cluster of several hosts: one host makes them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from indico_zodbrepl.backends.mariadb import sql as mariadb
from indico_zodbrepl.backends.postgresql import sql as postgresql
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import secrets

TEXT = """\
name three
backend relstorage-{engine}
var-directory {folder}/var
<host one>
  address 10.77.0.11
</host>
<host two>
  address 10.77.0.12
</host>
<node a>
  host one
  storage-port 8111
  data-directory {folder}/a
  role primary
</node>
<node b>
  host two
  storage-port 8111
  data-directory {folder}/b
  role secondary
  upstream a
</node>
<admin>
  host one
  port 8131
</admin>
"""


@pytest.fixture(params=["postgresql", "mariadb"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text(TEXT.format(engine=request.param, folder=tmp_path))
    return load(path, tmp_path)


def passwords_needed(cluster: Cluster) -> None:
    """Do what a start does with the password of Indico's user."""
    if cluster.backend == "relstorage-mariadb":
        mariadb.ensure(cluster, "indico")
    else:
        postgresql.ensure_password(cluster, "indico")


def test_a_host_without_a_password_makes_none_of_its_own_and_says_where_to_get_it(
    cluster: Cluster,
) -> None:
    with pytest.raises(OperatorError, match="this host lacks the password of user indico") as told:
        passwords_needed(cluster)
    assert told.value.exit_code is ExitCode.REFUSED
    assert "hosts push" in told.value.hint
    assert not secrets.shared(cluster)


def test_the_host_that_makes_the_passwords_shares_all_of_them(cluster: Cluster) -> None:
    secrets.make_shared(cluster)
    passwords_needed(cluster)
    shared = secrets.shared(cluster)
    assert len(shared) >= 4  # three users, and the secret for benchmarks
    for name in shared:
        path = Layout(cluster).secrets / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.unlink()
    assert sorted(secrets.add_shared(cluster, shared)) == sorted(shared)
    assert secrets.shared(cluster) == shared
    assert not secrets.add_shared(cluster, dict.fromkeys(shared, "another"))
    assert secrets.shared(cluster) == shared


def test_no_secret_leaves_its_folder(cluster: Cluster) -> None:
    with pytest.raises(OperatorError, match="no secret can be named"):
        secrets.add_shared(cluster, {"../tls/ca.pem": "of somebody else"})
