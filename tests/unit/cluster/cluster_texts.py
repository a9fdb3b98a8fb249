"""A good cluster.conf, and what loading a changed one gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.errors import ExitCode, OperatorError

GOOD = """\
name demo
backend zrs
var-directory $(ZODBREPL_HOME)/var

<node a>
  host 127.0.0.1
  storage-port 8111
  replication-port 8112
  data-directory $(ZODBREPL_HOME)/var/node/a
  role primary
</node>

<node b>
  host 127.0.0.1
  storage-port 8121
  replication-port 8122
  data-directory $(ZODBREPL_HOME)/var/node/b
  role secondary
  upstream a
</node>

<indico one>
  port 8101
</indico>

<admin>
  port 8100
</admin>
"""

THIRD_NODE = """
<node c>
  host 127.0.0.1
  storage-port 8131
  replication-port 8132
  data-directory /srv/c
  role relay
  upstream b
</node>
"""
LAST_LINE = len(GOOD.splitlines())


def load_text(tmp_path: Path, text: str, home: Path = Path("/opt/zodbrepl")) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text(text)
    return load(path, home)


def refusal(tmp_path: Path, text: str) -> list[str]:
    """The lines of the refusal's detail, without the file's folder."""
    expected = {*tmp_path.rglob("*"), tmp_path / "cluster.conf"}
    with pytest.raises(OperatorError) as caught:
        load_text(tmp_path, text)
    assert ExitCode.BAD_CONFIG == caught.value.exit_code
    assert expected == set(tmp_path.rglob("*"))
    return caught.value.detail.replace(f"{tmp_path}/", "").splitlines()
