"""RelStorage on Oracle, on a server that is managed elsewhere; never tested on a real server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from zope.interface import implementer

from indico_zodbrepl.backends import passwords, relstorage
from indico_zodbrepl.backends.base import blob_cache
from indico_zodbrepl.backends.interfaces import IBackend, Progress
from indico_zodbrepl.backends.one_copy import LIMITS, WithoutServer, standalone
from indico_zodbrepl.backends.relstorage import (
    CLIENT_CACHE_MB,
    bare,
    make_tables,
    schema_conf,
    wrapped,
)
from indico_zodbrepl.cluster import Cluster, Endpoint, Node, NodeState
from indico_zodbrepl.cluster.files import write_all, write_atomically
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.settings import OracleSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.answers import Fact, ServerAnswer
from indico_zodbrepl.probing.wire import conversation

COMMIT_SECONDS = 15
_OWNER = "the server belongs to somebody else: "


@implementer(IBackend)
class Oracle(WithoutServer):
    """RelStorage 3.5 with cx_Oracle 7; the node is the host of Oracle's listener."""

    name = "relstorage-oracle"
    limits: Mapping[str, str] = {
        **LIMITS,
        "switchover": _OWNER + "Oracle's own means change what answers at its address",
        "failover": _OWNER + "Oracle's own means change what answers at its address",
        "clone": _OWNER + "Oracle's own means copy it",
        "rejoin": _OWNER + "Oracle's own means repair it",
        "recover": _OWNER + "no failover of ours leaves transactions behind",
        "backup": _OWNER + "Oracle's own means (RMAN) back it up",
        "restore": _OWNER + "Oracle's own means (RMAN) restore it",
        "hold": "an Oracle server can't pause writes; stop the instances instead: "
        "`bin/zodbrepl down`",
        "size": "RelStorage can't tell how large an Oracle database is; ask the server",
    }

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        layout = Layout(cluster)
        return {
            schema_conf(cluster): bare(_storage(cluster, create=True)),
            layout.zodb_conf: wrapped(_storage(cluster)),
            **{
                layout.node_zodb_conf(node): bare(_storage(cluster, read_only=True))
                for node in cluster.nodes
            },
        }

    def listens_on(self, cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        return tuple(
            endpoint
            for endpoint in cluster.endpoints()
            if endpoint.kind == "node" and endpoint.name == state.node
        )

    def check(self, cluster: Cluster, installation: Installation) -> None:
        """Check the driver, and that no node is managed here (exit 2)."""
        for node in cluster.nodes:
            if node.managed:
                raise OperatorError(
                    f"node {node.name} can't be managed",
                    f"{cluster.where('node', node.name)}: {_OWNER}nothing here starts it",
                    "say 'managed false'",
                    ExitCode.BAD_CONFIG,
                )
        relstorage.require(
            installation,
            "import cx_Oracle; cx_Oracle.clientversion()",
            "Oracle's driver for Python 2.7 is missing",
            "install Oracle's Instant Client, then "
            f"`{installation.python27} -m pip install cx_Oracle==7.3.0`",
        )

    def has_data(self, cluster: Cluster, node: Node) -> bool:
        """Return False: the data cannot be seen from here."""
        return False

    def found(
        self, cluster: Cluster, installation: Installation, progress: Progress, deadline: float
    ) -> None:
        """Write the password file that the configuration includes, and create the tables."""
        _write_password(cluster)
        write_all({schema_conf(cluster): bare(_storage(cluster, create=True))})
        make_tables(installation, schema_conf(cluster), deadline)
        progress("RelStorage's tables are there")

    def ask(self, cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        """Check that Oracle's listener accepts connections; Indico's health covers the rest."""
        with conversation(node.storage_address, deadline):
            pass
        return ServerAnswer(0, 0, standalone(cluster, node, size=0), tuple(_facts(cluster)))


def password_conf(cluster: Cluster) -> Path:
    """Return the file with the password line, which the configuration includes."""
    return Layout(cluster).secrets / "oracle-password.conf"


def _facts(cluster: Cluster) -> Iterator[Fact]:
    yield Fact("data source", _settings(cluster).dsn)
    yield Fact("last transaction", "not asked: only Oracle's listener is")


def _settings(cluster: Cluster) -> OracleSettings:
    if not isinstance(cluster.settings, OracleSettings):
        raise TypeError(f"a cluster of {cluster.backend}")
    return cluster.settings


def _write_password(cluster: Cluster) -> None:
    path = _settings(cluster).password_file
    try:
        escaped = passwords.read_given(path).replace("$", "$$")
        write_atomically(password_conf(cluster), f"password {escaped}\n", 0o600)
    except OSError as error:
        raise OperatorError(
            "the password can't be read or kept",
            f"{error.filename or path}: {error.strerror}",
            exit_code=ExitCode.REFUSED,
        ) from error


def _storage(cluster: Cluster, *, create: bool = False, read_only: bool = False) -> str:
    own = _settings(cluster)
    return _STORAGE.format(
        name=cluster.name,
        history=str(own.keep_history).lower(),
        create=str(create).lower(),
        read_only=str(read_only).lower(),
        seconds=COMMIT_SECONDS,
        cache=CLIENT_CACHE_MB,
        blob_cache=blob_cache(Layout(cluster).blob_cache, "  "),
        dsn=own.dsn.replace("$", "$$"),
        user=own.user.replace("$", "$$"),
        password=password_conf(cluster).as_uri(),
    )


_STORAGE = """\
<relstorage>
  name {name}
  keep-history {history}
  create-schema {create}
  read-only {read_only}
  commit-lock-timeout {seconds}
  cache-local-mb {cache}
{blob_cache}
  <oracle>
    dsn {dsn}
    user {user}
    %include {password}
  </oracle>
</relstorage>
"""
