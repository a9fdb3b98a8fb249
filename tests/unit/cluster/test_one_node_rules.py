"""Cluster files of backends with one node: what they may not say, with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.cluster import load
from indico_zodbrepl.errors import ExitCode, OperatorError

ETC = Path(__file__).parents[3] / "etc"
SECOND_NODE = """
<node b>
  host 127.0.0.1
  data-directory /srv/b
  role primary
</node>
"""
SECOND_INSTANCE = """
<indico two>
  host 127.0.0.1
  port 8199
</indico>
"""


def refusal(folder: Path, example: str, old: str, new: str) -> str:
    """What is said of an example with that change."""
    text = (ETC / f"cluster-{example}.conf").read_text()
    assert old in text
    path = folder / "cluster.conf"
    path.write_text(text.replace(old, new, 1) if old else text + new)
    with pytest.raises(OperatorError) as raised:
        load(path, folder)
    assert raised.value.exit_code is ExitCode.BAD_CONFIG
    return raised.value.detail


@pytest.mark.parametrize(
    ("example", "old", "new", "said"),
    [
        ("filestorage", "", SECOND_INSTANCE, "allows at most 1 <indico>"),
        (
            "filestorage",
            "role primary",
            "role primary\n  storage-port 8199",
            "have no storage-port",
        ),
        ("filestorage", "role primary", "role secondary", "use primary"),
        ("filestorage", "role primary", "role primary\n  managed false", "always managed"),
        (
            "zeo",
            "",
            SECOND_NODE.replace("host", "storage-port 8198\n  host"),
            "allows at most 1 <node>",
        ),
        ("zeo", "  storage-port 8130\n", "", "needs a storage-port"),
        ("zeo", "backend zeo", "backend zeo\nmin-followers 1", "min-followers"),
        ("zeo", "", "<sqlite>\n</sqlite>\n", "<sqlite> is not for the backend zeo"),
        ("relstorage-sqlite", "", SECOND_NODE, "allows at most 1 <node>"),
        ("relstorage-sqlite", "keep-history true", "keep-history perhaps", "perhaps"),
        ("relstorage-oracle", "  dsn //127.0.0.1:8192/indico\n", "", "dsn"),
    ],
)
def test_what_can_not_be_is_refused(
    tmp_path: Path, example: str, old: str, new: str, said: str
) -> None:
    assert said in refusal(tmp_path, example, old, new)
