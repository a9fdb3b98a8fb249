"""Marks, ports and workers of all suites. Python 2.7 reads this file too."""

import os
import re

import pytest

PORTS_OF_A_WORKER = 1500
# Modules whose tests share a cluster, and the storage that parametrises it.
SHARES = re.compile(r"scope=\"module\"|\b(?:shared|site|sites): ")
STORAGE = re.compile(r"\[(filestorage|zeo|zrs|neo|relstorage-[a-z]+)")

# Each worker of pytest-xdist has its own range; the modules that use ports are imported later.
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if _worker.startswith("gw"):
    _first = int(os.environ.get("ZODBREPL_TEST_PORTS", "20000"))
    os.environ["ZODBREPL_TEST_PORTS"] = str(_first + int(_worker[2:]) * PORTS_OF_A_WORKER)


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "exhaustive: the kill matrix and repeats; `make test-all` runs them."
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Distribute single tests with --dist loadgroup, but those that share a cluster together.

    pytest-xdist's own loadgroup adds the group to the node id, which pytest 9.2 ignores.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - Python 2.7 has none

    class ByCluster(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return shared_cluster(nodeid, str(config.rootpath)) or nodeid

    return ByCluster(config, log)


def shared_cluster(nodeid, root):
    """Return a name of the cluster that a test shares with others of its module, if any."""
    path, _, test = nodeid.partition("::")
    with open(os.path.join(root, path)) as module:
        if not SHARES.search(module.read()):
            return None
    storage = STORAGE.search(test)
    return path + (storage.group(1) if storage else "")
