"""An existing etcd with TLS, client certificates and a login, used by three hosts."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from patience import wait_until
from three import Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.namespaces import Program
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import authority, certificates, etcd_control
from indico_zodbrepl.host.certificates import Role

pytestmark = pytest.mark.skipif(etcd_control.find() is None, reason="lacks etcd-server")

PORT, PEER_PORT = 2379, 2380
LOGIN = "correct horse"
FOLDER = "etcd-client"
SECTION = """\
automatic true
lease 2
<etcd>
  endpoints https://{address}:{port}
  ca-file {srv}/{folder}/ca.pem
  certificate-file {srv}/{folder}/host.pem
  key-file {srv}/{folder}/host.pem
  user zodbrepl
  password-file {srv}/{folder}/password
</etcd>
"""


class Existing(Three):
    """Three hosts; a member of etcd on h3 that ``zodbrepl`` knows nothing of but its endpoint."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self._trusted = folder / "trusted"
        self.other = folder / "other"
        for each in (self._trusted, self.other):
            authority.create(each, "etcd")
        self._own = lab["h3"].folder / "etcd-server"
        self._issue(self._trusted, self._own, "h3")
        for host in lab:
            self.give(host.name)
        self._etcd: Program | None = None
        section = SECTION.format(address=lab["h3"].address, port=PORT, srv=lab.srv, folder=FOLDER)
        super().__init__(lab, section=section)

    def _issue(self, source: Path, target: Path, name: str) -> None:
        """Give a folder a certificate of an authority, and that authority to trust."""
        shutil.rmtree(target, ignore_errors=True)
        trusted = certificates.authorities_file(source).read_text()
        certificates.install_authorities(target, trusted)
        address = self.lab[name].address
        certificates.install(target, authority.issue(source, name, Role.HOST, address))

    def give_named(self, name: str) -> None:
        """Give a host a certificate with a CommonName."""
        self._issue(self._trusted, self.lab[name].folder / FOLDER, name)
        self.set_password(name, LOGIN)

    def give(self, name: str) -> None:
        """Give a host what the client of etcd needs."""
        self.give_named(name)
        own = certificates.own_file(self.lab[name].folder / FOLDER)
        own.write_bytes(_without_name(self._trusted, own.read_bytes()))

    def set_password(self, name: str, password: str) -> None:
        path = self.lab[name].folder / FOLDER / "password"
        path.touch(0o600)
        path.write_text(password)

    def give_foreign(self, name: str, *, trusted: bool) -> None:
        """Give a host the certificate of another authority, or another authority to trust."""
        folder, own = self.lab[name].folder / FOLDER, self.lab[name].folder / "aside"
        self._issue(self.other, own, name)
        file = certificates.own_file(own) if trusted else certificates.authorities_file(own)
        shutil.copy(file, folder / file.name)

    def start_etcd(self) -> None:
        """Start the member, and switch its login on."""
        url, srv = f"https://{self.lab['h3'].address}:{PORT}", self.lab.srv / "etcd-server"
        peer = f"http://127.0.0.1:{PEER_PORT}"
        self._etcd = self.lab["h3"].popen(
            *("etcd", "--name", "m", "--data-dir", str(srv / "data")),
            *("--listen-client-urls", url, "--advertise-client-urls", url),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"m={peer}", "--client-cert-auth"),
            *("--trusted-ca-file", str(srv / "ca.pem")),
            *("--cert-file", str(srv / "host.pem"), "--key-file", str(srv / "host.pem")),
            *("--logger", "zap", "--log-level", "warn"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert wait_until(lambda: self.etcdctl("endpoint", "health").returncode == 0, later())
        prefix = "/zodbrepl/three/"
        for command in (
            ("user", "add", "root:root"),
            ("user", "grant-role", "root", "root"),
            ("role", "add", "zodbrepl"),
            ("role", "grant-permission", "zodbrepl", "--prefix=true", "readwrite", prefix),
            ("user", "add", f"zodbrepl:{LOGIN}"),
            ("user", "grant-role", "zodbrepl", "zodbrepl"),
            ("auth", "enable"),
        ):
            done = self.etcdctl(*command)
            assert done.returncode == 0 or "already" in done.stderr, done.stderr

    def etcdctl(self, *arguments: str, root: bool = False) -> subprocess.CompletedProcess[str]:
        srv = self.lab.srv / "etcd-server"
        return self.lab["h3"].run(
            *("etcdctl", "--endpoints", f"https://{self.lab['h3'].address}:{PORT}"),
            *("--cacert", str(srv / "ca.pem")),
            *("--cert", str(srv / "host.pem"), "--key", str(srv / "host.pem")),
            *(("--user", "root:root") if root else ()),
            *arguments,
            environ={"ETCDCTL_API": "3"},
            check=False,
        )

    def alerts(self, host: str) -> str:
        """Return the alerts about etcd as the status of a host shows them."""
        found = [each for each in self.status(host)["warnings"] if "etcd" in json.dumps(each)]
        return "\n".join(f"{each['text']}\n{each['detail']}\n{each['hint']}" for each in found)


def _without_name(authority_folder: Path, own: bytes) -> bytes:
    """Return a certificate without a CommonName, and its key, in place of another one."""
    issuer = x509.load_pem_x509_certificate(
        certificates.authorities_file(authority_folder).read_bytes()
    )
    signing = serialization.load_pem_private_key(
        certificates.authority_key_file(authority_folder).read_bytes(), None
    )
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    former, key = x509.load_pem_x509_certificate(own), ec.generate_private_key(ec.SECP256R1())
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "zodbrepl")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(former.not_valid_before_utc)
        .not_valid_after(former.not_valid_after_utc)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signing, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@pytest.fixture(scope="module")
def three(shared_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Existing:
    """A cluster that runs; each test leaves it so."""
    made = Existing(shared_lab, tmp_path_factory.mktemp("authorities"))
    made.start_etcd()
    made.agents()
    made.zodbrepl("h1", "up")
    return made


def refusal(three: Existing, host: str, *command: str) -> str:
    done = three.zodbrepl(host, *command, code=int(ExitCode.REFUSED))
    assert done.stderr.count("NOTICE") == 1, done.stderr
    return " ".join(done.stderr.split())


def test_the_leader_is_elected_with_a_certificate_and_a_login(three: Existing) -> None:
    assert three.primary("h2") == "a"
    three.zodbrepl("h2", "switchover", "b", "--reason", "a test")
    assert three.primary("h1") == "b"
    assert not three.alerts("h1")


def test_a_wrong_password_is_refused_with_one_message(three: Existing) -> None:
    three.set_password("h1", "wrong")
    said = refusal(three, "h1", "pause", "--reason", "a test")
    assert "the login of user zodbrepl failed" in said
    assert "password-file of <etcd>" in said
    alerts = three.alerts("h1")
    assert "no automatic failover: this host can't use etcd" in alerts
    assert "password-file of <etcd>" in alerts
    (three.lab["h1"].folder / FOLDER / "password").chmod(0o644)
    assert "chmod 600" in refusal(three, "h1", "pause", "--reason", "a test")
    three.give("h1")
    three.zodbrepl("h1", "pause", "--reason", "a test")
    three.zodbrepl("h1", "resume-automation")


def test_a_wrong_certificate_is_refused_with_one_message(three: Existing) -> None:
    expected = {
        True: "it refuses the certificate of this host",
        False: "its certificate is refused",
    }
    for trusted, reason in expected.items():
        three.give_foreign("h1", trusted=trusted)
        said = refusal(three, "h1", "pause", "--reason", "a test")
        assert "don't accept each other's certificates" in said
        assert reason in said
        assert "certificate-file" in said
        alerts = three.alerts("h1")
        assert "no automatic failover: this host can't use etcd" in alerts, alerts
        assert reason in alerts
        three.give("h1")
    three.zodbrepl("h1", "pause", "--reason", "a test")
    three.zodbrepl("h1", "resume-automation")


def test_a_certificate_that_etcd_could_take_for_a_user_is_explained(three: Existing) -> None:
    three.give_named("h1")
    assert "without a CommonName" in refusal(three, "h1", "pause", "--reason", "a test")
    three.give("h1")


def test_a_silent_etcd_has_another_exit_code(three: Existing) -> None:
    three.lab.network.block("h1", PORT)
    three.zodbrepl("h1", "pause", "--reason", "a test", code=int(ExitCode.TIMED_OUT))
    three.lab.network.heal()


def test_a_cluster_of_the_same_name_is_refused_until_the_keys_are_deleted(three: Existing) -> None:
    """The hosts get another identity, as by a new ``hosts init``: the etcd knows the former one."""
    three.zodbrepl("h1", "down")
    for host in three.lab:
        (host.folder / "var/secrets/cluster-id").write_text("made anew\n")
    said = refusal(three, "h1", "up")
    assert "the keys in etcd belong to another cluster of the same name" in said
    assert "etcdctl del --prefix /zodbrepl/three/" in said
    assert "another cluster of the same name" in three.alerts("h1")
    deleted = three.etcdctl("del", "--prefix", "/zodbrepl/three/", root=True)
    assert deleted.returncode == 0, deleted.stderr
    three.zodbrepl("h1", "up")
    assert three.primary("h2") == "b"
