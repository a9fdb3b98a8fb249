"""cluster.conf: the scheduler, the mail, the archive and the public URL of Indico."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from cluster_texts import GOOD, load_text, refusal

from indico_zodbrepl.cluster import Cluster, rendering
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.programs import SCHEDULER
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.secrets import check_mail_password

EXAMPLES = Path(__file__).parents[3] / "etc"
SECOND = "<indico two>\n  port 8102\n</indico>\n"
MAIL = """
<mail>
  smtp-server mail.example.org
  smtp-port 587
  starttls yes
  user ann
  password-file {folder}/password
  support-address help@example.org
  no-reply-address noreply@example.org
</mail>
"""


def with_scheduler(first: str, second: str) -> str:
    text = GOOD + SECOND
    for port, value in ((8101, first), (8102, second)):
        if value:
            text = text.replace(f"  port {port}\n", f"  port {port}\n  scheduler {value}\n")
    return text


def conf(cluster: Cluster) -> dict[str, Any]:
    values: dict[str, Any] = {}
    text = rendering.indico_conf(cluster, Installation(Path("/opt")), cluster.indico[0])
    exec(text.replace("execfile(", "exec_file("), {"exec_file": lambda _: None}, values)  # noqa: S102
    return values


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("", "", [True, False]),
        ("no", "", [False, True]),
        ("", "yes", [False, True]),
        ("no", "no", [False, False]),
    ],
)
def test_the_scheduler_runs_beside_one_instance(
    tmp_path: Path, first: str, second: str, expected: list[bool]
) -> None:
    cluster = load_text(tmp_path, with_scheduler(first, second))
    assert expected == [each.scheduler for each in cluster.indico]
    assert expected.count(True) == cluster.program_names().count(SCHEDULER)


def test_two_schedulers_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, with_scheduler("yes", "yes"))[0].endswith(
        "the cluster has one scheduler, and it runs beside instance one already"
    )


def test_without_the_section_no_mail_server_is_named(tmp_path: Path) -> None:
    assert ("127.0.0.1", 1) == conf(load_text(tmp_path, GOOD))["SmtpServer"]


def test_the_section_names_the_mail_server_and_overrides_the_site(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("se'cret\n")
    site = GOOD.replace("backend zrs", f"backend zrs\nsite-conf {tmp_path}/site.conf")
    cluster = load_text(tmp_path, site + MAIL.format(folder=tmp_path))
    values = conf(cluster)
    assert ("mail.example.org", 587) == values["SmtpServer"]
    assert ("yes", "ann", "se'cret") == tuple(
        values[f"Smtp{name}"] for name in ("UseTLS", "Login", "Password")
    )
    assert "help@example.org" == values["SupportEmail"] == values["PublicSupportEmail"]
    assert "noreply@example.org" == values["NoReplyEmail"]
    text = rendering.indico_conf(cluster, Installation(Path("/opt")), cluster.indico[0])
    assert "se'cret" not in text
    assert text.index("execfile") < text.index("mail.example.org")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  user ann\n", "password-file needs user too"),
        ("  password-file {folder}/password\n", "user needs password-file too"),
        ("  starttls yes\n", "passwords are never sent unencrypted"),
    ],
)
def test_half_a_login_is_refused(tmp_path: Path, line: str, expected: str) -> None:
    text = GOOD + MAIL.replace(line, "").format(folder=tmp_path)
    assert expected in refusal(tmp_path, text)[0]


def test_the_archive_and_the_public_url_are_those_of_the_file(tmp_path: Path) -> None:
    text = GOOD.replace(
        "backend zrs",
        "backend zrs\narchive-directory /srv/archive\npublic-url https://events.example.org/",
    )
    cluster = load_text(tmp_path, text)
    values = conf(cluster)
    assert "/srv/archive" == values["ArchiveDir"] == values["OfflineStore"]
    assert Path("/srv/archive") in rendering.indico_directories(cluster, cluster.indico[0])
    assert "https://events.example.org" == values["BaseURL"]
    assert "http://127.0.0.1:8101" == cluster.indico[0].base_url


def test_a_password_that_others_may_read_is_refused(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, GOOD + MAIL.format(folder=tmp_path))
    with pytest.raises(OperatorError) as missing:
        check_mail_password(cluster)
    assert "No such file" in missing.value.detail
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o640)
    with pytest.raises(OperatorError) as caught:
        check_mail_password(cluster)
    assert ExitCode.BAD_CONFIG is caught.value.exit_code
    assert f"chmod 600 {password}" == caught.value.hint
    password.chmod(0o600)
    check_mail_password(cluster)


def with_workers(number: str, text: str = GOOD) -> str:
    return text.replace("  port 8101\n", f"  port 8101\n  workers {number}\n")


def test_an_instance_has_one_worker_unless_the_file_says_more(tmp_path: Path) -> None:
    assert [1] == [each.workers for each in load_text(tmp_path, GOOD).indico]
    cluster = load_text(tmp_path, with_workers("4"))
    command = rendering.indico_program(
        cluster, Installation(Path("/opt")), cluster.indico[0]
    ).command
    assert "4" == command[command.index("--workers") + 1]


@pytest.mark.parametrize("number", ["0", "17", "two"])
def test_impossible_numbers_of_workers_are_refused(tmp_path: Path, number: str) -> None:
    (problem,) = refusal(tmp_path, with_workers(number))
    assert number in problem


def test_a_bare_file_has_one_worker(tmp_path: Path) -> None:
    text = (EXAMPLES / "cluster-filestorage.conf").read_text()
    changed = re.sub(r"(<indico one>\n)", r"\1  workers 2\n", text)
    assert changed != text
    assert "allows one worker" in refusal(tmp_path, changed)[0]


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_a_database_server_has_connections_for_some_workers_only(
    tmp_path: Path, engine: str
) -> None:
    text = (EXAMPLES / f"cluster-relstorage-{engine}.conf").read_text()
    load_text(tmp_path, re.sub(r"(<indico \w+>\n)", r"\1  workers 3\n", text))
    many = re.sub(r"(<indico \w+>\n)", r"\1  workers 4\n", text)
    assert refusal(tmp_path, many)[0].endswith(
        "8 workers in all, and 4 more while an instance restarts; a database server has "
        "connections for 10"
    )
