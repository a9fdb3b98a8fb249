"""cluster.conf: what a good file gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_texts import GOOD, THIRD_NODE, load_text, refusal

from indico_zodbrepl.cluster import Address, Role, check_site_conf, load
from indico_zodbrepl.errors import ExitCode, OperatorError


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


def test_a_missing_site_conf_is_reported_with_its_line_but_stops_no_other_command(
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
