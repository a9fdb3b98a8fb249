"""cluster.conf: the one line that each bad file gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_texts import GOOD, LAST_LINE, THIRD_NODE, refusal

from indico_zodbrepl.cluster import load
from indico_zodbrepl.errors import ExitCode, OperatorError


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "  port 8101",
            "  prot 8101",
            "23: unknown key 'prot' in <indico one>; did you mean 'port'?",
            id="unknown key",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\ncolour blue",
            "3: unknown key 'colour' (known: allow-public-addresses, archive-directory, automatic, "
            "backend, backup-directory, backup-time, encryption, files, keep-alive-delay, lease, "
            "min-followers, name, public-url, reconnect-delay, scheduler-takeover, site-conf, "
            "synchronous, synchronous-alone, synchronous-level, synchronous-timeout, "
            "var-directory)",
            id="unknown key outside of sections",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nfiles disk",
            "3: 'disk' is none of blobs, archive",
            id="no such place for files",
        ),
        pytest.param(
            "  storage-port 8121\n", "", "13: node b needs a storage-port", id="missing key"
        ),
        pytest.param(
            "name demo\n", "", "1: key 'name' is missing", id="missing key outside of sections"
        ),
        pytest.param(
            "<admin>\n  port 8100\n</admin>\n",
            "",
            "1: section <admin> is missing",
            id="no admin page",
        ),
        pytest.param(
            "port 8101",
            "port 8101\n  port 8102",
            "24: 'port' does not support multiple values",
            id="key twice",
        ),
        pytest.param(
            "</indico>",
            "",
            "26: <admin> is not allowed inside <indico one>; is </indico> missing?",
            id="section not closed",
        ),
        pytest.param("</indico>", "</indigo>", "24: unbalanced section end", id="unbalanced end"),
        pytest.param(
            "<indico one>",
            "<indigo one>",
            "22: unknown section <indigo> (known: host, node, neo, sqlite, postgresql, "
            "mariadb, oracle, indico, mail, admin, watch, etcd)",
            id="unknown section",
        ),
        pytest.param(
            "port 8101",
            "port 8121",
            "23: port 8121 is the storage-port of node b already, at cluster.conf:15",
            id="port of a node and an instance",
        ),
        pytest.param(
            "storage-port 8121",
            "storage-port 8112",
            "15: port 8112 is the replication-port of node a already, at cluster.conf:8",
            id="port of two nodes",
        ),
        pytest.param(
            "port 8100",
            "port 8101",
            "27: port 8101 is the port of indico one already, at cluster.conf:23",
            id="port of an instance and the admin page",
        ),
        pytest.param(
            "$(ZODBREPL_HOME)/var/node/b",
            "var/node/b",
            "17: 'var/node/b' is not an absolute path",
            id="relative path",
        ),
        pytest.param(
            "$(ZODBREPL_HOME)/var/node/b",
            "/srv/50%",
            "17: '/srv/50%' holds '%', which is not allowed in a path",
            id="unsafe path",
        ),
        pytest.param(
            "upstream a",
            "upstream z",
            "19: upstream 'z' is not a node of this cluster",
            id="missing node",
        ),
        pytest.param(
            "role secondary\n  upstream a",
            "role primary",
            "18: second primary; the first is a, at cluster.conf:10",
            id="two primaries",
        ),
        pytest.param(
            "role primary",
            "role relay\n  upstream b",
            "5: no node has the role primary; one is required",
            id="no primary",
        ),
        pytest.param(
            "  upstream a\n",
            "",
            "13: node b is a secondary, so it needs an upstream",
            id="secondary without upstream",
        ),
        pytest.param(
            "role primary",
            "role primary\n  upstream b",
            "11: node a is a primary, so it has no upstream",
            id="primary with upstream",
        ),
        pytest.param(
            "upstream a", "upstream b", "19: node b is its own upstream", id="own upstream"
        ),
        pytest.param(
            "</admin>\n",
            "</admin>\n" + THIRD_NODE,
            f"{LAST_LINE + 8}: upstream b is a secondary; choose a primary or a relay",
            id="upstream is a plain secondary",
        ),
        pytest.param(
            "backend zrs",
            "backend mongo",
            "2: unknown backend 'mongo' (known: zrs, zeo, "
            "filestorage, neo, relstorage-sqlite, relstorage-postgresql, "
            "relstorage-mariadb, relstorage-oracle)",
            id="unknown backend",
        ),
        pytest.param(
            "port 8101", "port 70000", "23: '70000' is not a port: 1 to 65535", id="port too high"
        ),
        pytest.param("port 8101", "port 0", "23: '0' is not a port: 1 to 65535", id="port zero"),
        pytest.param(
            "port 8101", "port many", "23: 'many' is not a port: 1 to 65535", id="port not a number"
        ),
        pytest.param(
            "<node b>",
            "<node a>",
            "13: the name 'a' is already used at cluster.conf:5",
            id="duplicate name",
        ),
        pytest.param(
            "<indico one>",
            "<indico a>",
            "22: the name 'a' is already used at cluster.conf:5",
            id="duplicate name of two kinds",
        ),
        pytest.param(
            "<node b>", "<node>", "13: 'node' sections must be named", id="section without a name"
        ),
        pytest.param(
            "$(ZODBREPL_HOME)/var/node/b",
            "$(ZODBREPL_HOME)/var/node/a/",
            "17: the data directory of node a overlaps, at cluster.conf:9",
            id="shared data directory",
        ),
        pytest.param(
            "$(ZODBREPL_HOME)/var/node/b",
            "$(ZODBREPL_HOME)/var/node/a/b",
            "17: the data directory of node a overlaps, at cluster.conf:9",
            id="data directory inside another",
        ),
        pytest.param(
            "<indico one>",
            "<indico one>\n  host 203.0.113.9",
            "23: 203.0.113.9 is a public address; to use it set 'allow-public-addresses true'",
            id="public address",
        ),
        pytest.param(
            "<admin>",
            "<admin>\n  host 0.0.0.0",
            "27: 0.0.0.0 is a public address; to use it set 'allow-public-addresses true'",
            id="all addresses",
        ),
        pytest.param(
            "<admin>",
            "<admin>\n  host no-such-host.invalid",
            "27: host name 'no-such-host.invalid' does not resolve",
            id="unknown host",
        ),
        pytest.param(
            "<admin>",
            "<admin>\n  host -x",
            "27: '-x' is not a host name or IP address",
            id="not a host",
        ),
        pytest.param(
            "<node b>",
            "<node b/../c>",
            "13: 'b/../c' is not a valid name: a letter, then letters, digits and hyphens, "
            "at most 32 characters",
            id="name unsafe as a file name",
        ),
        pytest.param(
            "name demo",
            "name a[b]",
            "1: 'a[b]' is not a valid name: a letter, then letters, digits and hyphens, "
            "at most 32 characters",
            id="cluster name unsafe",
        ),
        pytest.param(
            "role primary",
            "role boss",
            "10: 'boss' is not a role: primary, secondary, relay, master, storage, admin",
            id="unknown role",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nreconnect-delay soon",
            "3: 'soon' is not a number of seconds",
            id="not seconds",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nreconnect-delay 0",
            "3: '0' is out of range: 0.1 to 3600 seconds",
            id="delay out of range",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nbackup-directory $(ZODBREPL_HOME)/var/node/a/kept",
            "3: backups in /opt/zodbrepl/var/node/a/kept would be lost with the data of node a",
            id="backups among the data",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nbackup-directory three:/backup",
            "3: three is no <host> of this cluster",
            id="backups on no host",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nbackup-directory /backup\nbackup-time 3 o'clock",
            '4: "3 o\'clock" is not a time of day such as 03:00',
            id="not a time of day",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nbackup-directory /backup\nbackup-time 24:00",
            "4: '24:00' is not a time of day such as 03:00",
            id="an hour that no day has",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nbackup-time 03:00",
            "3: backup-time needs backup-directory too",
            id="scheduled backups without a folder",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nmin-followers some",
            "3: 'some' is not a number of followers: a whole number from 0",
            id="not a number of followers",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nmin-followers 2",
            "3: min-followers is 2, but the primary can have at most 1; it would never accept "
            "a write",
            id="more followers than there are nodes",
        ),
        pytest.param(
            "backend zrs",
            "backend zrs\nkeep-alive-delay nan",
            "3: 'nan' is out of range: 1 to 3600 seconds",
            id="delay not a number",
        ),
        pytest.param(
            "$(ZODBREPL_HOME)/var\n",
            "$(NO_SUCH_VARIABLE)/var\n",
            "3: no replacement for 'NO_SUCH_VARIABLE'",
            id="unknown variable",
        ),
        pytest.param(
            "$(ZODBREPL_HOME)/var\n",
            "$(ZODBREPL_HOME/var\n",
            "3: '$(ZODBREPL_HOME' not followed by ')'",
            id="malformed variable",
        ),
        pytest.param(
            "backend zrs",
            "%import ZEO\nbackend zrs",
            "2: %import ZEO: not allowed in a cluster file",
            id="import",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    assert 1 == GOOD.count(old)
    assert f"cluster.conf:{expected}" in refusal(tmp_path, GOOD.replace(old, new))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as caught:
        load(tmp_path / "none.conf", tmp_path)
    assert f"{tmp_path}/none.conf: No such file or directory" == caught.value.detail
    assert ExitCode.BAD_CONFIG == caught.value.exit_code


def test_a_folder_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="is invalid"):
        load(tmp_path, tmp_path)
    (tmp_path / "binary.conf").write_bytes(b"name \xff\xfe\n")
    with pytest.raises(OperatorError) as caught:
        load(tmp_path / "binary.conf", tmp_path)
    assert "not UTF-8" in caught.value.detail


def test_a_missing_included_file_is_refused_where_it_is_included(tmp_path: Path) -> None:
    (line,) = refusal(tmp_path, GOOD + "%include none.conf\n")
    assert line.startswith(f"cluster.conf:{LAST_LINE + 1}: cannot read ")


def test_an_upstream_cycle_is_refused_at_each_of_its_nodes(tmp_path: Path) -> None:
    text = GOOD.replace("role secondary\n  upstream a", "role relay\n  upstream c") + THIRD_NODE
    assert [
        "cluster.conf:19: the upstreams form a cycle: b -> c -> b",
        f"cluster.conf:{LAST_LINE + 8}: the upstreams form a cycle: c -> b -> c",
    ] == refusal(tmp_path, text)
