"""cluster.conf: the sections of the monitor and the admin page."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_texts import GOOD, LAST_LINE, load_text, refusal

from indico_zodbrepl.cluster import Address, Watch
from indico_zodbrepl.cluster.programs import Admin, Encryption
from indico_zodbrepl.errors import OperatorError

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
