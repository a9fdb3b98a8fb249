"""Indico 1.2.2 on replicated ZODB storages.

This one distribution runs on two interpreters.  ``RUNS_ON`` is the one place
that says which sub-package (or top-level module) is for which; the tests
compile every file with each interpreter it is for and check who imports whom.
"""

__version__ = "0.2.0"
"""The release; setup.py and `zodbrepl --version` read it here."""

PROTOCOL = 1
"""What the control plane asks of a storage server, and how; each server reports its own.

It is raised when a server of the release before can't do what this release asks of it.
"""

PYTHON27 = "2.7"
PYTHON3 = "3.11"

RUNS_ON = {
    "__init__": (PYTHON27, PYTHON3),
    "dataplane": (PYTHON27,),
    "errors": (PYTHON3,),
    "cluster": (PYTHON3,),
    "probing": (PYTHON3,),
    "etcd": (PYTHON3,),
    "backends": (PYTHON3,),
    "host": (PYTHON3,),
    "monitor": (PYTHON3,),
    "operations": (PYTHON3,),
    "automation": (PYTHON3,),
    "convert": (PYTHON3,),
    "adopt": (PYTHON3,),
    "monitord": (PYTHON3,),
    "bench": (PYTHON3,),
    "admin": (PYTHON3,),
    "demo": (PYTHON3,),
    "cli": (PYTHON3,),
    "setup": (PYTHON3,),
}

# Arrows point down only: a package may import what is to the right of it.
MAY_IMPORT = {
    "dataplane": (),
    "errors": (),
    "cluster": ("errors",),
    "probing": ("cluster", "errors"),
    "etcd": ("probing", "cluster", "errors"),
    "backends": ("probing", "cluster", "errors"),
    "host": ("etcd", "backends", "probing", "cluster", "errors"),
    "monitor": ("host", "etcd", "probing", "backends", "cluster", "errors"),
    "operations": ("monitor", "host", "etcd", "probing", "backends", "cluster", "errors"),
    "automation": (
        "operations",
        "monitor",
        "host",
        "etcd",
        "probing",
        "backends",
        "cluster",
        "errors",
    ),
    "convert": ("operations", "monitor", "host", "probing", "backends", "cluster", "errors"),
    "adopt": (
        "convert",
        "operations",
        "monitor",
        "host",
        "probing",
        "backends",
        "cluster",
        "errors",
    ),
    "monitord": (
        "operations",
        "monitor",
        "host",
        "etcd",
        "probing",
        "backends",
        "cluster",
        "errors",
    ),
    "bench": ("operations", "monitor", "host", "probing", "backends", "cluster", "errors"),
    "admin": (
        "bench",
        "monitord",
        "operations",
        "monitor",
        "host",
        "etcd",
        "probing",
        "backends",
        "cluster",
        "errors",
    ),
    "demo": (
        "admin",
        "operations",
        "monitor",
        "host",
        "etcd",
        "probing",
        "backends",
        "cluster",
        "errors",
    ),
    "cli": (
        "setup",
        "automation",
        "admin",
        "bench",
        "demo",
        "monitord",
        "adopt",
        "convert",
        "operations",
        "monitor",
        "host",
        "etcd",
        "probing",
        "backends",
        "cluster",
        "errors",
    ),
    "setup": ("cluster", "errors"),
}
