"""RelStorage on Oracle as far as it goes without an Oracle: what is rendered and refused."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from one_copy_clusters import INSTALLATION, PATIENCE, cluster_of, found, made

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.backends import oracle as oracle_backend
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.settings import OracleSettings
from indico_zodbrepl.errors import ExitCode, OperatorError

# Reads a storage's configuration as RelStorage does; prints JSON.
READ = """\
import json, sys, ZConfig, ZODB.config
storage = ZConfig.loadConfig(ZODB.config.getStorageSchema(), sys.argv[1])[0].storage.config
oracle = getattr(storage, 'base', storage)
oracle = getattr(oracle, 'config', oracle).adapter.config
print(json.dumps([oracle.dsn, oracle.user, oracle.password]))
"""


def test_oracle_s_password_is_in_no_file_that_others_can_read(tmp_path: Path) -> None:
    cluster = made(cluster_of("relstorage-oracle", tmp_path))
    settings = cluster.settings
    assert isinstance(settings, OracleSettings)
    settings.password_file.parent.mkdir(parents=True, exist_ok=True)
    settings.password_file.write_text("tiger$1\n")
    settings.password_file.chmod(0o600)
    Layout(cluster).secrets.mkdir()
    with pytest.raises(OperatorError):  # there is no driver and no server
        found(cluster)
    secret = oracle_backend.password_conf(cluster)
    assert 0o600 == secret.stat().st_mode & 0o777
    assert "password tiger$$1\n" == secret.read_text()
    for text in backend_of(cluster).client_files(cluster).values():
        assert "tiger" not in text
    for conf in (Layout(cluster).zodb_conf, Layout(cluster).node_zodb_conf(cluster.nodes[0])):
        done = subprocess.run(
            [INSTALLATION.python27, "-c", READ, conf],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=INSTALLATION.environment27(),
        )
        assert [settings.dsn, settings.user, "tiger$1"] == json.loads(done.stdout)


def test_oracle_without_its_driver_is_reported_in_one_line_that_says_what_to_install(
    tmp_path: Path,
) -> None:
    cluster = cluster_of("relstorage-oracle", tmp_path)
    with pytest.raises(OperatorError) as raised:
        backend_of(cluster).check(cluster, INSTALLATION)
    assert raised.value.exit_code is ExitCode.NOT_INSTALLED
    assert "cx_Oracle" in raised.value.hint


def test_an_oracle_server_is_never_started_here(tmp_path: Path) -> None:
    cluster = cluster_of("relstorage-oracle", tmp_path)
    ours = dataclasses.replace(cluster.nodes[0], managed=True)
    with pytest.raises(OperatorError) as raised:
        backend_of(cluster).check(dataclasses.replace(cluster, nodes=(ours,)), INSTALLATION)
    assert raised.value.exit_code is ExitCode.BAD_CONFIG
