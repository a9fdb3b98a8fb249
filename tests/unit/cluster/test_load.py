"""cluster.conf: what a good file gives, and the one line that each bad one gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Address, Cluster, Role, Watch, check_site_conf, load
from indico_zodbrepl.cluster.model import Admin, Encryption
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


def test_a_good_file_gives_the_cluster_it_describes(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, GOOD)
    assert "demo" == cluster.name
    assert Path("/opt/zodbrepl/var") == cluster.var_directory
    assert ["a", "b"] == [node.name for node in cluster.nodes]
    assert (Role.SECONDARY, "a") == (cluster.node("b").role, cluster.node("b").upstream)
    assert Address("127.0.0.1", 8121) == cluster.node("b").storage_address
    assert "http://127.0.0.1:8101/indico" == cluster.indico[0].base_url
    assert "http://127.0.0.1:8100/" == cluster.admin.base_url


def test_keys_left_out_have_their_documented_defaults(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, GOOD)
    assert 1.0 == cluster.reconnect_delay
    assert 5 == cluster.keep_alive_delay
    assert cluster.allow_public_addresses is False
    assert "127.0.0.1" == cluster.indico[0].host


def test_a_missing_site_conf_is_told_with_its_line_but_stops_no_other_command(
    tmp_path: Path,
) -> None:
    cluster = load_text(tmp_path, f"site-conf {tmp_path}/site.conf\n" + GOOD)
    with pytest.raises(OperatorError) as caught:
        check_site_conf(cluster)
    assert ExitCode.BAD_CONFIG == caught.value.exit_code
    assert (
        f"{tmp_path}/cluster.conf:1: site-conf {tmp_path}/site.conf: No such file or directory"
    ) == caught.value.detail
    (tmp_path / "site.conf").mkdir()
    with pytest.raises(OperatorError, match="is invalid"):
        check_site_conf(cluster)


def test_a_site_conf_that_is_there_is_accepted_and_so_is_none(tmp_path: Path) -> None:
    (tmp_path / "site.conf").touch()
    check_site_conf(load_text(tmp_path, f"site-conf {tmp_path}/site.conf\n" + GOOD))
    check_site_conf(load_text(tmp_path, GOOD))


def test_the_example_file_loads() -> None:
    example = Path(__file__).parents[3] / "etc" / "cluster.conf"
    assert 2 == len(load(example, Path("/opt/zodbrepl")).nodes)


def test_the_home_may_hold_a_dollar_sign_and_the_environment_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZODBREPL_HOME", "/somewhere/else")
    text = GOOD.replace("$(ZODBREPL_HOME)/var\n", "$(ZODBREPL_HOME)-x/var\n")
    assert Path("/opt/z-x/var") == load_text(tmp_path, text, Path("/opt/z")).var_directory


def test_every_section_and_key_knows_its_line(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, GOOD)
    expected = {
        ("node", "a", None): 5,
        ("node", "b", "storage-port"): 15,
        ("indico", "one", "port"): 23,
        ("indico", "one", "host"): 22,
        ("admin", None, "port"): 27,
        (None, None, "backend"): 2,
    }
    assert expected == {where: cluster.where(*where).line for where in expected}


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("<indico two>\n  prot 8102\n</indico>\n")
    assert ["more.conf:2: unknown key 'prot' in <indico two>; did you mean 'port'?"] == refusal(
        tmp_path, GOOD + "%include more.conf\n"
    )


def test_all_problems_are_listed_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = GOOD.replace("port 8101", "port 8111").replace("upstream a", "upstream z")
    assert [19, 23] == [int(line.split(":")[1]) for line in refusal(tmp_path, text)]


def test_a_cluster_has_a_node(tmp_path: Path) -> None:
    text = "name demo\nbackend zrs\nvar-directory /srv/var\n<admin>\n  port 1\n</admin>\n"
    (line,) = refusal(tmp_path, text)
    assert line.endswith(":1: section <node> is missing")


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
            "3: unknown key 'colour' (known: allow-public-addresses, backend, "
            "backup-directory, keep-alive-delay, min-followers, name, reconnect-delay, "
            "site-conf, var-directory)",
            id="unknown key outside of sections",
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
            "22: unknown section <indigo> (known: node, neo, sqlite, postgresql, "
            "mariadb, oracle, indico, admin, watch)",
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


def test_a_chain_over_a_relay_is_fine(tmp_path: Path) -> None:
    text = GOOD.replace("role secondary", "role relay") + THIRD_NODE.replace("relay", "secondary")
    assert ["a", "b", "c"] == [node.name for node in load_text(tmp_path, text).nodes]


def test_all_addresses_of_a_machine_overlap_each_of_its_ports(tmp_path: Path) -> None:
    text = GOOD.replace("<admin>\n  port 8100", "<admin>\n  host 0.0.0.0\n  port 8111").replace(
        "backend zrs", "backend zrs\nallow-public-addresses true"
    )
    assert [
        "cluster.conf:29: port 8111 is the storage-port of node a already, at cluster.conf:8"
    ] == refusal(tmp_path, text)


def test_the_same_port_and_folder_on_two_machines_is_fine(tmp_path: Path) -> None:
    text = (
        GOOD.replace("<node b>\n  host 127.0.0.1", "<node b>\n  host 10.0.0.2")
        .replace("<node a>\n  host 127.0.0.1", "<node a>\n  host 10.0.0.1")
        .replace("8121", "8111")
        .replace("node/b", "node/a")
    )
    cluster = load_text(tmp_path, text)
    assert 8111 == cluster.node("a").storage_port == cluster.node("b").storage_port


def test_a_public_address_is_allowed_when_asked_for(tmp_path: Path) -> None:
    text = GOOD.replace("<indico one>", "<indico one>\n  host 203.0.113.9").replace(
        "backend zrs", "backend zrs\nallow-public-addresses true"
    )
    assert "203.0.113.9" == load_text(tmp_path, text).indico[0].host


WATCH = """
<watch>
  port 8103
  lag-limit 2.5
  webhook https://alarm.example.org/zodbrepl?to=us
  webhook-secret-file /etc/zodbrepl/webhook
  mail-host 127.0.0.1
  mail-from zodbrepl@example.org
  mail-to one@example.org, two@example.org
  mail-encryption starttls
  mail-user ann
  mail-password-file /etc/zodbrepl/mail
</watch>
"""


def test_nothing_watches_a_cluster_without_the_section(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, GOOD)
    assert cluster.watch is None
    assert "watch" not in cluster.program_names()


def test_the_watch_section_says_whom_to_tell(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, GOOD + WATCH)
    assert (
        Watch(
            "127.0.0.1",
            8103,
            2.5,
            10.0,
            "https://alarm.example.org/zodbrepl?to=us",
            Path("/etc/zodbrepl/webhook"),
            Address("127.0.0.1", 25),
            "zodbrepl@example.org",
            ("one@example.org", "two@example.org"),
            Encryption.STARTTLS,
            "ann",
            Path("/etc/zodbrepl/mail"),
        )
        == cluster.watch
    )
    assert "watch" == cluster.program_names()[-1]
    assert "http://127.0.0.1:8103/metrics" == cluster.watch.metrics_url


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        (
            "webhook https",
            "webhook ftp",
            4,
            "is not a URL: http:// or https://, a host, and no passw",
        ),
        ("https://alarm", "https://me:secret@alarm", 4, "is not a URL"),
        (
            "  webhook https://alarm.example.org/zodbrepl?to=us\n",
            "",
            4,
            "webhook-secret-file needs webhook too",
        ),
        ("  mail-from zodbrepl@example.org\n", "", 6, "mail-host needs mail-from too"),
        ("  mail-host 127.0.0.1\n", "", 6, "mail-from needs mail-host too"),
        ("one@example.org", "Somebody", 8, "'Somebody' is not a mail address"),
        ("encryption starttls", "encryption ssl", 9, "'ssl' is none of none, starttls, tls"),
        ("  mail-encryption starttls\n", "", 9, "passwords are never sent unencrypted"),
        ("  mail-user ann\n", "", 10, "mail-password-file needs mail-user too"),
        (
            "  mail-password-file /etc/zodbrepl/mail\n",
            "",
            10,
            "mail-user needs mail-password-file too",
        ),
        ("lag-limit 2.5", "lag-limit 0", 3, "out of range"),
        ("port 8103", "port 8100", 2, "port 8100 is the port of admin already"),
    ],
)
def test_a_mistake_in_the_watch_section_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, expected: str
) -> None:
    where, _, message = refusal(tmp_path, GOOD + WATCH.replace(old, new))[0].partition(": ")
    assert expected in message
    assert LAST_LINE + 1 + line == int(where.rpartition(":")[2])


ADMIN = """
  read-only yes
  public-url https://ZODB.example:443
  trusted-proxy 127.0.0.1
</admin>
"""


def admin_of(tmp_path: Path, section: str) -> Admin:
    return load_text(tmp_path, GOOD.replace("\n</admin>\n", section)).admin


def test_the_admin_page_is_open_to_operators_at_its_own_address_unless_said(tmp_path: Path) -> None:
    assert Admin("127.0.0.1", 8100) == load_text(tmp_path, GOOD).admin
    assert "http://127.0.0.1:8100/" == load_text(tmp_path, GOOD).admin.base_url


def test_the_admin_page_behind_a_proxy(tmp_path: Path) -> None:
    admin = admin_of(tmp_path, ADMIN)
    assert (
        Admin(
            "127.0.0.1",
            8100,
            read_only=True,
            public_url="https://zodb.example/",
            trusted_proxy="127.0.0.1",
        )
        == admin
    )
    assert "https://zodb.example/" == admin.base_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://zodb.example", "http://zodb.example/"),
        ("http://zodb.example:80/", "http://zodb.example/"),
        ("https://zodb.example:8443/", "https://zodb.example:8443/"),
        ("https://zodb.example/Events/zodb", "https://zodb.example/Events/zodb/"),
        ("https://[FD00::1]:443/", "https://[fd00::1]/"),
    ],
)
def test_a_public_url_is_kept_in_one_way(tmp_path: Path, url: str, expected: str) -> None:
    assert expected == admin_of(tmp_path, ADMIN.replace("https://ZODB.example:443", url)).public_url


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("https://ZODB.example:443", "https://zodb.example/../admin", "has more than"),
        ("https://ZODB.example:443", "https://zodb.example/%7Eadmin", "has more than"),
        ("https://ZODB.example:443", "https://zodb.example/?x", "has more than"),
        ("https://ZODB.example:443", "zodb.example", "is not a URL"),
        ("https://ZODB.example:443", "https://me:secret@zodb.example/", "is not a URL"),
        ("127.0.0.1", "localhost", "'localhost' is not an IP address"),
        ("  public-url https://ZODB.example:443\n", "", "trusted-proxy needs public-url too"),
        ("yes", "perhaps", "perhaps"),
    ],
)
def test_an_admin_section_that_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(OperatorError) as caught:
        admin_of(tmp_path, ADMIN.replace(old, new))
    assert message in caught.value.detail
