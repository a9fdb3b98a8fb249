"""Make the hosts of a cluster file a cluster: certificates, bundles, the same file everywhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import host_named, own_host
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import authority, bundle, certificates, cluster_file, secrets, ssh
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.host.interface import DryRun, HostAwayError
from indico_zodbrepl.host.remote import identities
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.operations import hosts_secrets
from indico_zodbrepl.operations.model import Context, Figures
from indico_zodbrepl.operations.single import Single
from indico_zodbrepl.probing.waiting import wait_until

JOIN_SECONDS = 90.0
"""For ssh, the bundle and the start of the agent."""
ANSWER_SECONDS = 20.0


class Init(Single):
    """This host becomes the one that issues the certificates of the cluster."""

    action = "hosts-init"
    verb = "hosts init"
    words = "Create the certificate authority of {name}, and the certificate of this host"

    def checked(self, cluster: Cluster, _installation: Installation) -> DryRun:
        host, folder = own_host(cluster), Layout(cluster).tls
        issuing, own = authority.issues(folder), certificates.own_file(folder)
        if certificates.authorities_file(folder).exists() and not issuing:
            raise OperatorError(
                "another host issues the certificates of this cluster",
                f"{certificates.authorities_file(folder)} exists, "
                f"{certificates.authority_key_file(folder)} does not",
                "if that host is lost: bin/zodbrepl hosts rotate-certificates --authority",
                ExitCode.REFUSED,
            )
        return DryRun(
            (f"this is host {host.name}, {host.address}",),
            (
                *([] if issuing else [f"create the certificate authority in {folder}"]),
                *([] if own.exists() else [f"issue the certificate of host {host.name}: {own}"]),
            ),
        )

    def do(self, context: Context) -> Figures:
        cluster = context.cluster
        checked = self.checked(cluster, context.installation)
        host, folder = own_host(cluster), Layout(cluster).tls
        if not checked.does:
            context.note("this host has an authority and a certificate already")
            return {}
        if not authority.issues(folder):
            authority.create(folder, cluster.name)
            context.say(f"created the certificate authority in {folder}")
        if not certificates.own_file(folder).exists():
            issued = authority.issue(folder, host.name, Role.HOST, host.address)
            certificates.install(folder, issued)
            context.say(f"issued the certificate of host {host.name}")
        secrets.make_shared(cluster)
        key = certificates.authority_key_file(folder)
        context.note(f"back up {key}: it can make certificates for every host")
        for other in _others(cluster):
            command = Commands.here(cluster).zodbrepl("hosts", "add", other.name)
            context.note(f"next: {command}")
        return {}


class Add(Single):
    """A host of the cluster file gets all that it needs to become a part of the cluster."""

    action = "hosts-add"
    verb = "hosts add"
    words = "Give host {name} its certificate, the cluster file and the shared secrets"
    kept = ("file",)

    def checked(self, cluster: Cluster, installation: Installation) -> DryRun:
        host, own = self._host(cluster), own_host(cluster)
        authority.current(Layout(cluster).tls)
        found = [f"host {host.name} is at {host.address}, and {own.name} issues certificates"]
        if not self._file:
            seen = identities.collect(cluster)[host.name]
            if not isinstance(seen, OperatorError):
                found.append(f"its agent answers: host {host.name} is a part of the cluster")
                return DryRun(tuple(found))
        does = [f"issue a certificate for {authority.LIFETIME.days} days"]
        if self._file:
            bundle.check_file(Path(self._file))
            does.append(f"write the bundle {self._file}, mode 0600")
        else:
            there = f"{installation.home} and {cluster.source} on {host.address}"
            does.append(f"send it with the cluster file and the shared secrets by ssh: {there}")
            does.append("start the agent there")
        return DryRun(tuple(found), tuple(does))

    def do(self, context: Context) -> Figures:
        cluster, host = context.cluster, self._host(context.cluster)
        if not self.checked(cluster, context.installation).does:
            context.note(f"host {host.name} is a part of the cluster: its agent answers")
            return {"file": self._file}
        content = bundle.make(cluster, host.name)
        commands = Commands.here(cluster)
        if self._file:
            bundle.write(Path(self._file), content)
            context.say(f"wrote {self._file}: who has it is host {host.name}; remove it afterwards")
            join = commands.zodbrepl("hosts", "join", "FILE")
            context.note(f"copy {self._file} to host {host.name}, and type there: {join}")
        else:
            self._send(context, host, content)
        if len(cluster.hosts) > 2:
            push = commands.zodbrepl("hosts", "push")
            context.note(f"if the other hosts don't have this cluster file yet: {push}")
        return {"file": self._file}

    def _send(self, context: Context, host: ClusterHost, content: bytes) -> None:
        cluster, home = context.cluster, context.installation.home
        context.say(f"asking {host.address} by ssh")
        command = [
            *("sh", "-c", 'cd "$1" && exec bin/zodbrepl -c "$2" hosts join -', "sh"),
            *(str(home), str(cluster.source)),
        ]
        for line in ssh.run(host.address, command, content, JOIN_SECONDS).splitlines():
            context.say(f"{host.name}: {line}")
        client = AgentClient(cluster, host)
        if not wait_until(lambda: _answers(client), time.monotonic() + ANSWER_SECONDS):
            raise OperatorError(
                f"the agent of host {host.name} does not answer",
                f"it was started, and {host.agent_address} can't be reached from this host",
                f"let the firewall there admit port {host.agent_port} from the other hosts",
                ExitCode.TIMED_OUT,
            )

    @property
    def _file(self) -> str:
        return str(self.arguments["file"] or "")

    def _host(self, cluster: Cluster) -> ClusterHost:
        host = host_named(cluster, self.subject)
        if host.name == own_host(cluster).name:
            raise OperatorError(
                f"this machine is host {host.name}",
                "it needs no bundle",
                Commands.here(cluster).zodbrepl("hosts", "init"),
                ExitCode.REFUSED,
            )
        return host


class Remove(Single):
    """A host on which nothing runs leaves the cluster."""

    action = "hosts-remove"
    verb = "hosts remove"
    words = "Take its certificate from host {name}"

    def checked(self, cluster: Cluster, _installation: Installation) -> DryRun:
        host = host_named(cluster, self.subject)
        if host.name == own_host(cluster).name:
            raise OperatorError(
                f"this machine is host {host.name}",
                "a host is removed by another one",
                exit_code=ExitCode.REFUSED,
            )
        placed = list(_placed(cluster, host))
        if placed:
            raise OperatorError(
                f"the cluster file places programs on host {host.name}",
                ", ".join(placed),
                "move or remove these sections; then: "
                + Commands.here(cluster).zodbrepl("hosts", "push"),
                ExitCode.REFUSED,
            )
        seen = identities.collect(cluster)[host.name]
        if isinstance(seen, OperatorError):
            return DryRun((), (), (f"host {host.name} keeps its certificate: {seen.detail}",))
        return DryRun(
            (f"the cluster file places nothing on host {host.name}",),
            (f"remove the certificate of host {host.name} there, and stop its agent",),
        )

    def do(self, context: Context) -> Figures:
        cluster = context.cluster
        self.checked(cluster, context.installation)
        host, commands = cluster.host(self.subject), Commands.here(cluster)
        try:
            AgentClient(cluster, host).call("hosts.leave", {})
            context.say(f"host {host.name} has no certificate any more, and its agent stops")
        except HostAwayError as error:
            context.note(f"host {host.name} keeps its certificate: {error.detail}")
        context.note(
            f"next: delete the section <host {host.name}> of {cluster.source}, then: "
            f"{commands.zodbrepl('hosts', 'push')}; hosts refuse one that is not in their file"
        )
        context.note(
            "copies of its certificate stay valid until they expire; to end them all: "
            + commands.zodbrepl("hosts", "rotate-certificates", "--authority")
        )
        return {}


class Push(Single):
    """All hosts get this host's cluster file, and the shared secrets that they lack."""

    action = "hosts-push"
    verb = "hosts push"
    words = "Give all hosts the cluster file of {name}"
    kept = ("replaced",)

    def checked(self, cluster: Cluster, _installation: Installation) -> DryRun:
        own = own_host(cluster)
        text = cluster.source.read_text("utf-8")
        files = _files(cluster)
        same = [name for name, each in files.items() if each == text]
        found = [f"host {own.name}, this one, has {cluster.source}"]
        found += [f"host {name} has the same file" for name in same]
        refusals = {name: each for name, each in files.items() if isinstance(each, OperatorError)}
        refusals |= _refusals(cluster, text, _other_names(files, text))
        lacking = hosts_secrets.lacking(cluster)
        return DryRun(
            tuple(found),
            (
                *(
                    f"replace {cluster.source} on host {name}; the old one is kept beside it"
                    for name in _other_names(files, text)
                    if name not in refusals
                ),
                *(
                    f"give host {name} the secrets that it lacks: {', '.join(names)}"
                    for name, names in lacking.items()
                ),
            ),
            tuple(_told(name, each) for name, each in refusals.items()),
        )

    def do(self, context: Context) -> Figures:
        cluster = context.cluster
        own_host(cluster)
        text = cluster.source.read_text("utf-8")
        files = _files(cluster)
        names = _other_names(files, text)
        refusals = _refusals(cluster, text, names)
        for error in refusals.values():
            # One host that refuses it would be left behind: nothing is replaced then.
            if not isinstance(error, HostAwayError):
                raise unfinished(refusals, "the cluster file was given to no host")
        given = hosts_secrets.give(context)
        before = {name: str(files[name]) for name in names}

        def replace(name: str) -> None:
            replaces = cluster_file.digest(before[name])
            arguments = {"text": text, "replaces": replaces}
            _client(cluster, name).call("hosts.replace_cluster_file", arguments)

        answers = identities.of_hosts([each for each in names if each not in refusals], replace)
        replaced = [name for name, each in answers.items() if each is None]
        cluster_file.note_earlier(cluster, (cluster_file.digest(before[name]) for name in replaced))
        for name in replaced:
            context.say(f"replaced the cluster file of host {name}")
        away = {name: each for name, each in files.items() if isinstance(each, OperatorError)}
        away |= refusals
        away |= {name: each for name, each in answers.items() if isinstance(each, OperatorError)}
        if away:
            raise unfinished(away, f"{_hosts(away)} did not get the cluster file")
        if not replaced and not given:
            context.note("all hosts have this cluster file already")
        else:
            context.note(f"to apply it: {Commands.here(cluster).zodbrepl('up')}")
        return {"replaced": list(replaced)}


def differences(cluster: Cluster) -> list[str]:
    """Return what ``Push`` changes in the cluster files of other hosts, as lines of a diff."""
    text, lines = cluster.source.read_text("utf-8"), list[str]()
    known: dict[str, list[str]] = {}
    for name, each in _files(cluster).items():
        if isinstance(each, str) and each != text:
            known.setdefault(each, []).append(name)
    for before, names in known.items():
        was = f"{cluster.source} of host {', '.join(names)}"
        lines += cluster_file.difference(before, text, was, f"{cluster.source} of this host")
    return lines


def _files(cluster: Cluster) -> dict[str, str | OperatorError]:
    """Return the cluster files of the other hosts."""

    def ask(name: str) -> str:
        return str(_client(cluster, name).call("hosts.cluster_file", {}))

    return identities.of_hosts([each.name for each in _others(cluster)], ask)


def _other_names(files: dict[str, str | OperatorError], text: str) -> list[str]:
    return [name for name, each in files.items() if isinstance(each, str) and each != text]


def _refusals(cluster: Cluster, text: str, names: Iterable[str]) -> dict[str, OperatorError]:
    """Return the hosts that would not take a cluster file, and why."""

    def ask(name: str) -> None:
        _client(cluster, name).call("hosts.check_cluster_file", {"text": text})

    answers = identities.of_hosts(names, ask)
    return {name: each for name, each in answers.items() if isinstance(each, OperatorError)}


def unfinished(failed: dict[str, OperatorError], notice: str) -> OperatorError:
    """Return the error about hosts that did not get what the others did.

    Its exit code is 7 if all of them are only away.
    """
    away = all(isinstance(each, HostAwayError) for each in failed.values())
    return OperatorError(
        notice,
        "\n".join(_told(name, each) for name, each in failed.items()),
        "repeat the command when they answer" if away else next(iter(failed.values())).hint,
        ExitCode.TIMED_OUT if away else ExitCode.REFUSED,
    )


def _hosts(names: Iterable[str]) -> str:
    known = list(names)
    return f"{'host' if len(known) == 1 else 'hosts'} {', '.join(known)}"


def _told(name: str, error: OperatorError) -> str:
    return f"host {name}: {error.notice}" + (f": {error.detail}" if error.detail else "")


def _client(cluster: Cluster, name: str) -> AgentClient:
    return AgentClient(cluster, cluster.host(name))


def _answers(client: AgentClient) -> bool:
    try:
        client.identity()
    except HostAwayError:
        return False
    return True


def _others(cluster: Cluster) -> list[ClusterHost]:
    return [host for host in cluster.hosts if host.name != cluster.here]


def _placed(cluster: Cluster, host: ClusterHost) -> Iterator[str]:
    """Yield what the cluster file places on a host."""
    yield from (f"<node {node.name}>" for node in cluster.nodes if node.on == host.name)
    yield from (f"<indico {each.name}>" for each in cluster.indico if each.on == host.name)
    if cluster.admin.on == host.name:
        yield "<admin>"
    if cluster.watch is not None and cluster.watch.on == host.name:
        yield "<watch>"
