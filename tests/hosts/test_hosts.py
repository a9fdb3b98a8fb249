"""Hosts become one cluster by commands, and stay one: certificates, bundles, cluster files."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time

import pytest
from installed import HOME, Installed
from labs import MakeLab
from patience import wait_until

from indico_zodbrepl.demo.lab import Lab

PATIENCE = 60.0
UNCHANGED = "This was a dry run: nothing was changed."


@pytest.fixture
def empty(hosts: MakeLab) -> Installed:
    """Three hosts with nothing on them."""
    return Installed(hosts(3))


@pytest.fixture(scope="module")
def shared(shared_lab: Lab) -> Installed:
    """Three hosts that became one cluster."""
    made = Installed(shared_lab)
    made.all_joined()
    return made


@pytest.fixture
def joined(shared: Installed) -> Installed:
    """Three hosts that are one cluster."""
    shared.as_joined()
    return shared


def later() -> float:
    return time.monotonic() + PATIENCE


def files_of(installed: Installed, host: str) -> dict[str, bytes]:
    folder = installed.lab[host].folder
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "journal" not in path.name and path.suffix != ".log"
    }


def test_three_empty_hosts_become_a_cluster(empty: Installed) -> None:
    empty.write("h1")
    before = files_of(empty, "h1")
    assert UNCHANGED in empty.done("h1", "hosts", "init", "--dry-run")
    assert before == files_of(empty, "h1")
    first = empty.done("h1", "hosts", "init", "--reason", "a new cluster")
    assert "hosts add h2" in first
    assert "have" not in first
    assert "has an authority and a certificate already" in empty.done("h1", "hosts", "init")
    empty.start_agent("h1")

    bundle = str(empty.lab.srv / "bundle")
    before = files_of(empty, "h1")
    planned = empty.done("h1", "hosts", "add", "h2", "--to-file", bundle, "--dry-run")
    assert "write the bundle" in planned
    assert before == files_of(empty, "h1")
    empty.done("h1", "hosts", "add", "h2", "--to-file", bundle)
    path = empty.outside("h1", "bundle")
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert f"{bundle} exists" in empty.refused("h1", 8, "hosts", "add", "h3", "--to-file", bundle)
    content = path.read_text()
    planned = empty.done("h2", "hosts", "join", "-", "--dry-run", text=content)
    assert f"write {empty.file}" in planned
    assert {} == files_of(empty, "h2")
    assert "this is host h2 of cluster three" in empty.done(
        "h2", "hosts", "join", "-", text=content
    )
    for secret in ("var/secrets/bench-secret", "var/tls/host.pem"):
        found = empty.outside("h2", secret)
        assert 0o600 == stat.S_IMODE(found.stat().st_mode)
    assert not empty.outside("h2", "var/tls/ca.key").exists()
    for shared in ("var/secrets/bench-secret", "cluster.conf"):
        assert empty.outside("h1", shared).read_bytes() == empty.outside("h2", shared).read_bytes()

    lines = empty.listed("h1", code=1)
    assert [True, True, False] == [each["up"] for each in lines.values()]
    empty.add("h3")
    for host in ("h1", "h3"):
        lines = empty.listed(host)
        assert {"same"} == {each["cluster_file"] for each in lines.values()}
        assert {()} == {tuple(each["issues"]) for each in lines.values()}
        assert all(729 < each["certificate_days"] <= 730 for each in lines.values())
    journal = empty.done("h1", "journal")
    assert "hosts-init" in journal
    assert "a new cluster" in journal
    assert "hosts-add" in journal


def test_a_bundle_is_refused_where_it_does_not_fit(empty: Installed) -> None:
    empty.init()
    bundle = str(empty.lab.srv / "bundle")
    empty.done("h1", "hosts", "add", "h2", "--to-file", bundle)
    content = empty.outside("h1", "bundle").read_text()

    def join(host: str, code: int, text: str = content) -> str:
        before = files_of(empty, host)
        said = empty.refused(host, code, "hosts", "join", "-", text=text)
        assert before == files_of(empty, host), "nothing was changed"
        return said

    assert "this machine is not host h2 of cluster three" in join("h3", 8)
    assert "this is no bundle of a host" in join("h2", 2, "nonsense")
    assert "this is no bundle of a host" in join("h2", 2, content[: len(content) // 2])
    changed = json.loads(content)
    assert "newer release" in join("h2", 9, json.dumps({**changed, "format": 2}))
    escaping = {**changed, "secrets": {"../../etc/passwd": "x"}}
    assert "it has a secret '../../etc/passwd'" in join("h2", 2, json.dumps(escaping))
    other = {**changed, "cluster": "four"}
    assert "not host h2 of cluster four" in join("h2", 8, json.dumps(other))
    invalid = {**changed, "cluster_file": "name three\nnonsense\n"}
    assert "is invalid" in join("h2", 2, json.dumps(invalid))

    empty.write("h2", empty.text + "# newer\n")
    said = join("h2", 8)
    assert "this host has another cluster file" in said
    assert "-# newer" in said
    empty.outside("h2").unlink()

    empty.done("h2", "hosts", "join", "-", text=content)
    # A new cluster of the same name, made elsewhere.
    empty.write("h3")
    empty.done("h3", "hosts", "init")
    empty.done("h3", "hosts", "add", "h2", "--to-file", bundle)
    content = empty.outside("h3", "bundle").read_text()
    assert "this host belongs to another cluster" in join("h2", 8, content)


def test_a_machine_that_is_no_host_of_the_file_gets_no_authority(empty: Installed) -> None:
    empty.write("h1", empty.text.replace("10.77.0.11", "10.77.0.99"))
    assert "this machine is no host of cluster three" in empty.refused("h1", 8, "hosts", "init")
    assert not empty.outside("h1", "var/tls").exists()


SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
SSHD_CONFIG = """\
HostKey {folder}/host-key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
PermitRootLogin yes
SetEnv ZODBREPL_HOME={home}
"""
SSH_CONFIG = """\
IdentityFile {folder}/key
UserKnownHostsFile {folder}/known-hosts
StrictHostKeyChecking accept-new
"""


@pytest.mark.skipif(SSHD is None, reason="sshd is missing: apt-get install openssh-server")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run sshd")
def test_a_host_is_added_by_ssh(empty: Installed) -> None:
    empty.init()
    key = empty.lab.srv / "key"
    empty.lab["h1"].run("ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-f", key)
    shutil.copy(empty.outside("h1", "key.pub"), empty.outside("h2", "key.pub"))
    empty.lab["h2"].run(
        "ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-f", empty.lab.srv / "host-key"
    )
    for host, name, text in (("h2", "sshd", SSHD_CONFIG), ("h1", "ssh", SSH_CONFIG)):
        content = text.format(folder=empty.lab.srv, home=HOME)
        empty.outside(host, name).write_text(content)
    empty.lab["h2"].run("mkdir", "-p", "/run/sshd")
    empty.lab["h2"].popen(str(SSHD), "-D", "-e", "-f", empty.lab.srv / "sshd")
    # The user's own configuration of ssh, which is not touched here, would have these options.
    program = empty.outside("h1", "bin/ssh")
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {empty.lab.srv}/ssh "$@"\n')
    program.chmod(0o755)
    path = {"PATH": f"{empty.lab.srv}/bin:{os.environ['PATH']}"}

    def add(*options: str) -> tuple[int, str]:
        found = empty.zodbrepl("h1", "hosts", "add", "h2", *options, environ=path)
        return found.returncode, " ".join(f"{found.stdout} {found.stderr}".split())

    code, said = add("--dry-run")
    assert 0 == code, said
    assert "start the agent there" in said
    assert wait_until(lambda: add()[0] == 0, later()), add()
    assert empty.text == empty.outside("h2").read_text()
    assert empty.listed("h1", code=1)["h2"]["up"]
    code, said = add()
    assert 0 == code
    assert "host h2 is a part of the cluster: its agent answers" in said
    # What the other host refuses is reported as it says it.
    pid = empty.lab["h2"].run("pgrep", "-f", "cluster.conf agent$").stdout.strip()
    empty.lab["h2"].run("kill", "-9", pid)
    empty.write("h2", empty.text + "# changed there\n")
    assert wait_until(
        lambda: not empty.listed("h1", code=2)["h2"]["up"], PATIENCE + time.monotonic()
    )
    code, said = add()
    assert 1 == code
    assert "this host has another cluster file" in said


def test_a_host_that_ssh_does_not_reach_is_reported_in_limited_time(empty: Installed) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("ssh is missing: apt-get install openssh-client")
    empty.init()
    said = empty.refused("h1", 1, "hosts", "add", "h2")
    assert "ssh can't reach 10.77.0.12" in said
    assert "Connection refused" in said
    assert "--to-file FILE" in said


def test_the_list_is_not_delayed_by_silent_hosts(joined: Installed) -> None:
    joined.lab.network.isolate("h3")
    joined.lab["h2"].freeze()
    seconds = []
    for _ in range(2):
        began = time.monotonic()
        lines = joined.listed("h1", code=2)
        seconds.append(time.monotonic() - began)
    print(f"{min(seconds):.2f} s with two of three hosts silent")
    assert [True, False, False] == [each["up"] for each in lines.values()]
    assert all("does not answer" in lines[host]["issues"][0] for host in ("h2", "h3"))
    joined.lab["h2"].thaw()
    joined.lab.network.heal()
    assert wait_until(
        lambda: joined.zodbrepl("h1", "hosts", "list").returncode == 0,
        later(),
    )


def test_a_pushed_file_is_on_all_hosts_and_the_old_one_is_kept(joined: Installed) -> None:
    new = joined.text + "# a comment\n"
    joined.write("h1", new)
    lines = joined.listed("h1", code=1)
    assert ["same", "other", "other"] == [each["cluster_file"] for each in lines.values()]
    shown = joined.done("h1", "hosts", "push", "--dry-run")
    assert "+# a comment" in shown
    assert UNCHANGED in shown
    assert joined.text == joined.outside("h2").read_text()
    assert "+# a comment" in joined.done("h1", "hosts", "push")
    for host in ("h2", "h3"):
        assert new == joined.outside(host).read_text()
        assert joined.text == joined.outside(host, "cluster.conf.before").read_text()
    joined.listed("h1")
    assert "all hosts have this cluster file already" in joined.done("h1", "hosts", "push")


def test_a_push_gives_a_host_the_secrets_that_it_lacks_and_replaces_none(joined: Installed) -> None:
    own, lost = (joined.outside(host, "var/secrets/bench-secret") for host in ("h1", "h2"))
    other = joined.outside("h3", "var/secrets/bench-secret")
    other.write_text("its own\n")
    lost.unlink()
    assert "bench-secret" in joined.done("h1", "hosts", "push", "--dry-run")
    assert not lost.exists()
    said = joined.done("h1", "hosts", "push")
    assert "gave host h2 the secrets that it lacked: bench-secret" in said
    assert own.read_text() == lost.read_text()
    assert stat.S_IMODE(lost.stat().st_mode) == 0o600
    assert other.read_text() == "its own\n"
    own.unlink()
    assert "this host lacks secrets that others have: bench-secret" in joined.done(
        "h1", "hosts", "push"
    )
    assert not own.exists()
    joined.done("h2", "hosts", "push")
    assert own.read_text() == lost.read_text()


def test_a_host_that_comes_back_with_an_old_file_can_neither_push_it_nor_act(
    joined: Installed,
) -> None:
    new = joined.text + "# newer\n"
    joined.lab["h3"].kill()
    joined.write("h1", new)
    said = joined.refused("h1", 7, "hosts", "push")
    assert "host h3 did not get the cluster file" in said
    assert new == joined.outside("h2").read_text()
    joined.lab["h3"].start()
    joined.start_agent("h3")
    assert "older" == joined.listed("h1", code=1)["h3"]["cluster_file"]
    assert "newer" == joined.listed("h3", code=1)["h1"]["cluster_file"]
    said = joined.refused("h3", 8, "hosts", "push")
    assert "the cluster file of host h1 is newer" in said
    said = joined.refused("h3", 8, "node", "fence", "b")
    assert "the cluster file of host h2 is another one" in said
    assert new == joined.outside("h1").read_text() == joined.outside("h2").read_text()
    joined.done("h2", "hosts", "push")
    joined.listed("h3")


def test_a_file_that_one_host_refuses_is_given_to_none(joined: Installed) -> None:
    """It would run with another folder for its certificates and records."""
    moved = joined.text.replace(f"{joined.lab.srv}/var", f"{joined.lab.srv}/other")
    joined.write("h3", moved)
    (joined.lab["h3"].folder / "var").rename(joined.lab["h3"].folder / "other")
    said = joined.refused("h3", 8, "hosts", "push")
    assert "host h1 can't take the cluster file over" in said
    assert "var-directory" in said
    for host in ("h1", "h2"):
        assert joined.text == joined.outside(host).read_text()


def test_a_host_whose_file_became_invalid_says_so_and_gets_another(joined: Installed) -> None:
    joined.write("h2", "nonsense\n")
    (issue, *_) = joined.listed("h1", code=1)["h2"]["issues"]
    assert "cluster.conf is invalid" in issue
    joined.done("h1", "hosts", "push")
    joined.listed("h1")


def test_certificates_are_rotated_while_calls_go_on(joined: Installed) -> None:
    before = joined.outside("h2", "var/tls/host.pem").read_text()
    assert UNCHANGED in joined.done("h1", "hosts", "rotate-certificates", "--dry-run")
    assert before == joined.outside("h2", "var/tls/host.pem").read_text()
    joined.done("h1", "hosts", "rotate-certificates")
    assert before != joined.outside("h2", "var/tls/host.pem").read_text()
    joined.listed("h2")
    assert "this host does not issue certificates" in joined.refused(
        "h2", 8, "hosts", "rotate-certificates"
    )


def test_an_authority_is_replaced_in_steps_that_a_host_that_is_away_interrupts(
    joined: Installed,
) -> None:
    old = joined.outside("h2", "var/tls/ca.pem").read_text()
    joined.lab["h3"].kill()
    said = joined.refused("h1", 7, "hosts", "rotate-certificates", "--authority")
    assert "the rotation waits for host h3" in said
    assert old in joined.outside("h2", "var/tls/ca.pem").read_text(), "both are trusted"
    joined.listed("h1", code=1)
    joined.lab["h3"].start()
    joined.start_agent("h3")
    assert joined.listed("h3")["h1"]["up"], "its certificate is still accepted"
    said = joined.done("h1", "hosts", "rotate-certificates", "--authority")
    assert "continuing a rotation" in said
    for host in ("h1", "h2", "h3"):
        text = joined.outside(host, "var/tls/ca.pem").read_text()
        assert 1 == text.count("BEGIN CERTIFICATE")
        assert old != text
        joined.listed(host)
    assert "created a new authority" in joined.done(
        "h1", "hosts", "rotate-certificates", "--authority"
    )
    joined.listed("h2")


def test_another_host_issues_certificates_when_the_first_one_is_lost(joined: Installed) -> None:
    joined.lab["h1"].kill()
    said = joined.refused("h2", 8, "hosts", "rotate-certificates")
    assert "this host does not issue certificates" in said
    assert "it issues certificates from now on" in joined.done(
        "h2", "hosts", "rotate-certificates", "--authority", "--dry-run"
    )
    joined.refused("h2", 7, "hosts", "rotate-certificates", "--authority")
    # A new machine takes the place of the first one.
    shutil.rmtree(joined.lab["h1"].folder)
    joined.lab["h1"].start()
    bundle = str(joined.lab.srv / "bundle")
    joined.done("h2", "hosts", "add", "h1", "--to-file", bundle)
    content = joined.outside("h2", "bundle").read_text()
    joined.done("h1", "hosts", "join", "-", text=content)
    joined.done("h2", "hosts", "rotate-certificates", "--authority")
    joined.listed("h1")


def test_a_host_is_removed_when_nothing_is_placed_on_it(joined: Installed) -> None:
    said = joined.refused("h1", 8, "hosts", "remove", "h2")
    assert "<node b>" in said
    assert "cluster.conf has no host h4" in joined.refused("h1", 2, "hosts", "remove", "h4")
    assert UNCHANGED in joined.done("h1", "hosts", "remove", "h3", "--dry-run")
    copy = joined.outside("h3", "var/tls/host.pem").read_text()
    said = joined.done("h1", "hosts", "remove", "h3")
    assert "delete the section <host h3>" in said
    assert "rotate-certificates --authority" in said
    assert not joined.outside("h3", "var/tls/host.pem").exists()
    # Its agent ends after it has answered.
    assert wait_until(lambda: not joined.listed("h1", code=None)["h3"]["up"], later())
    begin = joined.text.index("<host h3>")
    end = joined.text.index("</host>", begin) + len("</host>\n")
    joined.write("h1", joined.text[:begin] + joined.text[end:])
    joined.done("h1", "hosts", "push")
    joined.listed("h2")
    # A copy of its certificate is of no use: no host knows it any more.
    joined.outside("h3", "var/tls/host.pem").write_text(copy)
    joined.start_agent("h3")
    found = joined.listed("h3", code=2)
    assert "has no host h3 at 10.77.0.13" in found["h1"]["issues"][0]


def test_a_slow_network_delays_commands_and_breaks_none(joined: Installed) -> None:
    """Each round trip takes half a second longer."""
    joined.lab.network.slow("h2", delay_ms=250)
    joined.write("h1", joined.text + "# a comment\n")
    assert "replaced the cluster file of host h2" in joined.done("h1", "hosts", "push")
    assert "host h2 uses a new certificate" in joined.done("h1", "hosts", "rotate-certificates")
    joined.lab.network.slow("h2", delay_ms=500)
    assert "host h2 uses a new certificate" in joined.done("h1", "hosts", "rotate-certificates")
