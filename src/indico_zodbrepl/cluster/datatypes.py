"""The data types of cluster.conf, referenced by schema.xml.

Each converts the text of a value, or raises ValueError with a message for the operator; ZConfig
adds the line.
"""

from __future__ import annotations

import datetime
import ipaddress
import os.path
import re
import urllib.parse
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster.hosts import LinkEncryption
from indico_zodbrepl.cluster.model import FileStore, Role, SyncLevel, WhenAlone
from indico_zodbrepl.cluster.programs import Encryption
from indico_zodbrepl.cluster.settings import (
    MariaDBSettings,
    NeoSettings,
    OracleSettings,
    PostgreSQLSettings,
    SQLiteSettings,
)

NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
SQL_NAME = re.compile(r"[a-z_][a-z0-9_]{0,31}")
MAIL_ADDRESS = re.compile(r"[A-Za-z0-9._%+=/-]+@[A-Za-z0-9.-]+")
WEB_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
UNSAFE_IN_PATH = re.compile(r"""[\x00-\x1f\x7f"'\\;#%$]""")


def name(text: str) -> str:
    """Return a name that is safe in file names, program names and arguments."""
    lowered = text.lower()
    if not NAME.fullmatch(lowered):
        raise ValueError(
            f"{text!r} is not a valid name: a letter, then letters, digits and hyphens, "
            "at most 32 characters"
        )
    return lowered


def host(text: str) -> str:
    """Return a host name or IP address; resolving it is checked later."""
    bare = text.removeprefix("[").removesuffix("]")
    if not HOST.fullmatch(bare):
        raise ValueError(f"{text!r} is not a host name or IP address")
    return bare.lower()


def port(text: str) -> int:
    """Return a TCP port that a server can listen on."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise ValueError(f"{text!r} is not a port: 1 to 65535")
    return int(text)


def absolute_path(text: str) -> Path:
    """Return an absolute path without characters that the generated files cannot contain."""
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is not an absolute path")
    unsafe = UNSAFE_IN_PATH.search(text)
    if unsafe:
        raise ValueError(f"{text!r} holds {unsafe.group()!r}, which is not allowed in a path")
    return Path(os.path.normpath(text))


def backup_directory(text: str) -> tuple[str | None, Path]:
    """Return the host, if one is named, and the absolute path of ``HOST:FOLDER`` or ``FOLDER``."""
    host, colon, path = text.partition(":")
    if not colon or "/" in host:
        return None, absolute_path(text)
    return host, absolute_path(path)


def time_of_day(text: str) -> datetime.time:
    """Return a time with hours and minutes, such as 03:00."""
    try:
        return datetime.datetime.strptime(text, "%H:%M").time()
    except ValueError:
        raise ValueError(f"{text!r} is not a time of day such as 03:00") from None


def role(text: str) -> Role:
    """Return primary, secondary or relay; for NEO master, storage or admin."""
    try:
        return Role(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is not a role: {', '.join(Role)}") from None


def reconnect_delay(text: str) -> float:
    """Return seconds, 0.1 to 3600."""
    return _seconds(text, 0.1)


def keep_alive_delay(text: str) -> int:
    """Return whole seconds, 1 to 3600."""
    seconds = _seconds(text, 1)
    if seconds != int(seconds):
        raise ValueError(f"{text!r} is not a whole number of seconds")
    return int(seconds)


def scheduler_takeover(text: str) -> float:
    """Return the seconds; fewer would be too short for a busy host."""
    return _seconds(text, 10)


def follower_count(text: str) -> int:
    """Return a number of followers, from 0."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a number of followers: a whole number from 0")
    return int(text)


def lag_limit(text: str) -> float:
    """Return seconds, 0.1 to 3600."""
    return _seconds(text, 0.1)


def failover_after(text: str) -> float:
    """Return seconds, 1 to 3600."""
    return _seconds(text, 1)


def web_address(text: str) -> str:
    """Return an http or https URL without user and password."""
    try:
        parts = urllib.parse.urlsplit(text)
        valid = (
            parts.scheme in ("http", "https")
            and parts.hostname is not None
            and parts.username is None
            and parts.port != 0
            and text.isprintable()
            and " " not in text
            and host(parts.hostname) != ""
        )
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(f"{text!r} is not a URL: http:// or https://, a host, and no password")
    return text


def public_url(text: str) -> str:
    """Return a URL as ``web_address`` without query; it ends in /."""
    parts = urllib.parse.urlsplit(web_address(text))
    path = parts.path.strip("/")
    if parts.query or parts.fragment or (path and not WEB_PATH.fullmatch(path)):
        raise ValueError(
            f"{text!r} has more than a scheme, a host and a path of letters, digits, "
            "hyphens, underscores and dots"
        )
    name = host(parts.hostname or "")
    shown = f"[{name}]" if ":" in name else name
    standard = {"http": 80, "https": 443}[parts.scheme]
    port_part = "" if parts.port in (None, standard) else f":{parts.port}"
    return f"{parts.scheme}://{shown}{port_part}/" + (f"{path}/" if path else "")


def ip_address(text: str) -> str:
    """Return an IP address in canonical form."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address") from None


def ipv4_address(text: str) -> str:
    """Return an IPv4 address in canonical form."""
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError(
            f"{text!r} is not an IPv4 address; a name would need a resolver during a failover"
        ) from None


def link_encryption(text: str) -> LinkEncryption:
    """Return the encryption of connections between hosts."""
    try:
        return LinkEncryption(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is none of {', '.join(LinkEncryption)}") from None


def file_store(text: str) -> FileStore:
    """Return where new uploaded files go."""
    try:
        return FileStore(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is none of {', '.join(FileStore)}") from None


def sync_level(text: str) -> SyncLevel:
    """Return what a secondary must have done with an acknowledged transaction."""
    try:
        return SyncLevel(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is none of {', '.join(SyncLevel)}") from None


def when_alone(text: str) -> WhenAlone:
    """Return what happens to commits that too few secondaries can acknowledge."""
    try:
        return WhenAlone(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is none of {', '.join(WhenAlone)}") from None


def sync_timeout(text: str) -> float:
    """Return seconds, 0.1 to 3600."""
    return _seconds(text, 0.1)


def lease(text: str) -> float:
    """Return seconds, 2 to 60: with fewer, a busy host would lose its role without a fault."""
    seconds = _seconds(text, 2)
    if seconds > 60:
        raise ValueError(f"{text!r}: more than 60 seconds")
    return seconds


def etcd_urls(text: str) -> tuple[str, ...]:
    """Return URLs separated by blanks or commas: http or https, host and port; at least one."""
    found = tuple(text.replace(",", " ").split())
    for each in found:
        parts = urllib.parse.urlsplit(each)
        if parts.scheme not in ("http", "https") or not parts.hostname or not parts.port:
            raise ValueError(f"{each!r} is no URL such as https://10.0.0.1:2379")
        if parts.path.strip("/") or parts.query or parts.fragment or parts.username:
            raise ValueError(f"{each!r} has more than a scheme, a host and a port")
    return tuple(each.rstrip("/") for each in found)


def mail_address(text: str) -> str:
    """Return a mail address without a display name."""
    if not MAIL_ADDRESS.fullmatch(text):
        raise ValueError(f"{text!r} is not a mail address")
    return text


def mail_encryption(text: str) -> Encryption:
    """Return the encryption of an SMTP connection."""
    try:
        return Encryption(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is none of {', '.join(Encryption)}") from None


def mail_user(text: str) -> str:
    """Return a login name: printable ASCII without blanks."""
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError(f"{text!r} is not a login name: use printable ASCII without spaces")
    return text


def mail_addresses(text: str) -> tuple[str, ...]:
    """Return addresses separated by blanks or commas; at least one."""
    return tuple(mail_address(each) for each in text.replace(",", " ").split())


def etcd_generation(text: str) -> int:
    """Return the number of a foundation of etcd."""
    return _whole(text, 1, 1_000_000)


def replica_count(text: str) -> int:
    """Return the number of additional copies, from 0."""
    return _whole(text, 0, 8)


def worker_count(text: str) -> int:
    """Return the number of processes of an Indico instance, from 1."""
    return _whole(text, 1, 16)


def partition_count(text: str) -> int:
    """Return the number of partitions, from 1."""
    return _whole(text, 1, 4096)


def neo_adapter(text: str) -> str:
    """Return the database that NEO's storage nodes use."""
    if text.lower() not in ("sqlite", "mariadb"):
        raise ValueError(f"{text!r} is not an adapter: sqlite, mariadb")
    return text.lower()


def hung_after(text: str) -> float:
    """Return seconds, 2 to 3600."""
    return _seconds(text, 2)


def sql_name(text: str) -> str:
    """Return a database or user name that needs no quotes in SQL."""
    if not SQL_NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a name here: lower-case letters, digits, underscores, "
            "at most 32 characters"
        )
    return text


def neo_settings(section: Any) -> NeoSettings:
    """Return the settings of ``<neo>``."""
    return NeoSettings(
        section.replicas,
        section.partitions,
        section.adapter,
        section.hung_after,
        section.mariadb_socket,
    )


def sqlite_settings(section: Any) -> SQLiteSettings:
    """Return the settings of ``<sqlite>``."""
    return SQLiteSettings(section.keep_history)


def postgresql_settings(section: Any) -> PostgreSQLSettings:
    """Return the settings of ``<postgresql>``."""
    return PostgreSQLSettings(
        section.database,
        section.user,
        section.password_file,
        section.keep_history,
        section.bin_directory,
    )


def mariadb_settings(section: Any) -> MariaDBSettings:
    """Return the settings of ``<mariadb>``."""
    return MariaDBSettings(
        section.database,
        section.user,
        section.password_file,
        section.keep_history,
        section.bin_directory,
    )


def oracle_settings(section: Any) -> OracleSettings:
    """Return the settings of ``<oracle>``."""
    return OracleSettings(section.dsn, section.user, section.password_file, section.keep_history)


def _whole(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise ValueError(f"{text!r} is not a whole number from {least} to {most}")
    return int(text)


def _seconds(text: str, least: float) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of seconds") from None
    if not least <= seconds <= 3600:
        raise ValueError(f"{text!r} is out of range: {least:g} to 3600 seconds")
    return seconds
