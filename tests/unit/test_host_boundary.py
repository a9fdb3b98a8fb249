"""No module outside of host/ opens a node's files, and nodes are reached through one interface."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import indico_zodbrepl

SOURCE = Path(indico_zodbrepl.__file__).parent
ABOVE = (
    "automation",
    "operations",
    "monitor",
    "monitord",
    "admin",
    "cli",
    "convert",
    "bench",
    "demo",
)

# What may be imported from host/ besides the interface: values, and what concerns the control host
# alone.
VALUES = {
    "backup": {
        "Backup",
        "BackupFolder",
        "Made",
        "Newer",
        "Swapped",
        "folder_named",
        "iso",
        "moment",
    },
    "backup_retention": {"Series", "expired"},
    "bundle": {"Joining"},
    "certificates": {"Role"},
    "data_interface": {"Backups"},
    "data_end": {"DataEnd"},
    "datafs_answers": {
        "BlobAudit",
        "Comparison",
        "Export",
        "Progress",
        "Relation",
        "Truncation",
        "describe",
    },
    "disks": {"PROBE_BYTES", "Disk", "Room", "gib", "mib"},
    "epochs": {"EpochRecord", "now", "seconds"},
    "exports_interface": {"RecoveryExport"},
    "history": {"STARTS_IN_NO_ROLE", "Condition", "Lineage"},
    "last_seen": {"LastSeen", "parse"},
    "log_files": {"DECISIONS", "MOST_BYTES", "masked"},
    "logs_interface": {"LogLine", "LogPart", "Logs"},
    "locking": {"as_keyboard_interrupt", "held_off"},
    "operation_files": {"append_line"},
    "acknowledging": {"describe"},
    "promise": {"Fate", "Promise", "fate"},
    "operations_interface": {"Holder", "Lock", "LockHeldError", "LockLostError", "Texts"},
    "packing": {"PROGRAM", "Packed", "PackedInPart"},
    "peers": {"of_nodes"},
    "programs": {"ENDED", "STARTED"},
    "py27": {"Program", "ProgramError"},
    "secrets": {"Credentials"},
    "server_control": {"NoServerError", "ServerRefusedError"},
    "sights": {"Sighting"},
    "sql_export": {"DiffersError", "Divergent", "UnreadableError"},
    "supervisor": {"NOT_KNOWN", "SupervisorAwayError", "SupervisorSilentError"},
    "system": {"Folder", "System"},
    "verifying": {"Verified"},
}
# Modules outside of host/ that read the kernel's state of processes, and which processes.
READS_PROCESSES = {
    "admin/jobs.py": "the commands that the page has started",
    "automation/server.py": "the server of the leader on this host",
    "bench": "the processes of clusters on this host",
}
PROCESS_STATE = "indico_zodbrepl.probing.process_state"
# What else may be imported where, and why: these act on the host on which they run.
ON_THIS_HOST = {
    # A benchmark makes its clusters and their TLS on this host, measures their processes, and locks
    # the folder of its results.
    "bench": {
        "authority",
        "backup",
        "daemon",
        "indico_programs",
        "lifecycle",
        "locking",
        "ports",
        "py27",
        "readiness",
        "secrets",
        "supervisor",
    },
    # The demo runs its cluster on this host, or makes the hosts that it runs on.
    "demo": {
        "certificates",
        "daemon",
        "indico_programs",
        "lifecycle",
        "locking",
        "secrets",
        "etcd_control",
        "tunnel_control",
    },
    # A conversion runs the storages of two clusters that are down, on this host.
    "convert": {"daemon", "generated", "lifecycle", "node_files", "py27", "state", "supervisor"},
    # The program of a host that elects the leader: it promotes and kills servers of its own host.
    "automation": {
        "acknowledging",
        "candidacy",
        "confirmed_commits",
        "disks",
        "engine_control",
        "epochs",
        "history",
        "interface",
        "leader_file",
        "lines",
        "locking",
        "promise",
        "remote.etcd_lock",
        "roles",
        "server_control",
        "state",
        "supervisor",
    },
    # `up` and `down` start and stop the programs of the host on which they are typed.
    "cli/cluster.py": {"generated", "lifecycle", "remote", "system"},
    # `etcd replace` is typed on the host whose member is replaced.
    "operations/etcd_members.py": {"etcd_replacing"},
    # A service runs the programs of one host, as a program in the foreground and files of systemd.
    "cli/service.py": {"daemon", "foreground", "remote.keeping", "service_files"},
    # `agent` is the program of a host; a bundle is read where it is used.
    "cli/hosts.py": {"bundle", "remote"},
    # Certificates and cluster files are administered where a command is typed, by calls to agents.
    "operations/hosts.py": {
        "authority",
        "bundle",
        "certificates",
        "cluster_file",
        "remote",
        "remote.client",
        "secrets",
        "ssh",
    },
    "operations/hosts_secrets.py": {"remote", "remote.client", "secrets"},
    "operations/hosts_certificates.py": {
        "authority",
        "certificates",
        "remote",
        "remote.client",
        "remote.identities",
        "renewal",
    },
    "operations/hosts_check.py": {"certificates", "cluster_file", "remote", "remote.identities"},
    "operations/hosts_issue.py": {"authority", "bundle", "certificates"},
    "operations/hosts_join.py": {"bundle", "remote"},
    "operations/hosts_list.py": {"remote.identities", "remote.messages"},
    # `node run` is the program of a node.
    "cli/node.py": {"run"},
    # The port of the monitor's own metrics.
    # The releases of the programs on this host, and which of them monitor, page and automation are.
    "monitord/program.py": {"ports", "releases"},
    "cli/admin.py": {"releases"},
    "cli/automation.py": {"releases"},
    "operations/planning.py": {"releases"},
    # The files and programs of this host, beside the cluster file.
    "operations/drift.py": {"generated", "lifecycle_dry_runs"},
    "operations/upgrade.py": {"lifecycle_dry_runs", "releases", "stages"},
    # A client on the host that has the folder of uploaded files moves them.
    "operations/files.py": {"disks", "recovering", "uploads"},
    "cli/files_view.py": {"uploads"},
    # The last statistics are in the control host's var directory.
    "cli/data.py": {"statistics"},
    "cli/data_view.py": {"statistics"},
    "admin/pages/data.py": {"statistics"},
}
# The paths of a node, and what opens or asks for a file.
NODE_PATHS = {
    "control_socket",
    "data_file",
    "data_folder",
    "data_fs",
    "database",
    "lineage_file",
    "staged_folder",
    "state_file",
    "zeo_conf",
}
ACCESS = {
    "chmod",
    "exists",
    "glob",
    "is_dir",
    "is_file",
    "is_symlink",
    "iterdir",
    "lstat",
    "mkdir",
    "open",
    "read_bytes",
    "read_text",
    "rename",
    "replace",
    "resolve",
    "rglob",
    "rmdir",
    "samefile",
    "stat",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
}
FILE_MODULES = {"os", "shutil", "tempfile", "fcntl"}
FILE_FUNCTIONS = {"open", "sync_folder", "write_all", "write_atomically"}
# A backend's methods that work on the node's own host.
ACTS = {"found", "has_data", "open_alone", "prepare", "promote", "prove", "settle"}
BACKENDS = {"backend_of", "native_of", "consensus_of"}
# Files outside of host/ that open files of a node or /proc, and why.
OPENS_FILES = {
    "bench": "a benchmark reads what it has made on this host",
    "convert/disk_space.py": "the data of clusters that are down, on this host",
    "convert/planning.py": "the same",
    "convert/sources.py": "the same",
    "demo/hosts": "sockets in folders of the demo, by a short path",
    "demo/lab": "the namespaces that stand for hosts",
}


def modules(packages: tuple[str, ...] = ABOVE) -> Iterator[Path]:
    for package in packages:
        yield from sorted((SOURCE / package).rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported_from_host(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield a module of host/ and a name for each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            base, _, module = node.module.partition("indico_zodbrepl.host")
            if not base and module[:1] in ("", ".") and module != node.module:
                for alias in node.names:
                    yield (module[1:], alias.name) if module else (alias.name, "")


def may_import(path: Path, module: str, name: str) -> bool:
    own = next((ON_THIS_HOST[each] for each in ON_THIS_HOST if is_in(path, each)), set())
    return module == "interface" or name in VALUES.get(module, set()) or module in own


def is_in(path: Path, part: str) -> bool:
    return path.relative_to(SOURCE).is_relative_to(part)


def test_hosts_are_reached_through_their_interface_alone() -> None:
    """A remote host can then be a second implementation of it."""
    wrong = [
        f"{path.relative_to(SOURCE)}: {module} {name}"
        for path in modules()
        for module, name in imported_from_host(parsed(path))
        if not may_import(path, module, name)
    ]
    assert wrong == []


def test_the_kernel_is_asked_for_a_nodes_processes_in_host_alone() -> None:
    reading = {
        path
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        and node.module == PROCESS_STATE
        and {alias.name for alias in node.names} - {"FROZEN"}
    }
    found = {
        next((part for part in READS_PROCESSES if is_in(path, part)), str(path)) for path in reading
    }
    assert found == set(READS_PROCESSES)


def test_each_exception_is_needed() -> None:
    """One that is no longer used would hide the next one."""
    unused = {
        (part, module)
        for part, allowed in ON_THIS_HOST.items()
        for module in allowed
        if not any(
            module == used and name not in VALUES.get(used, set())
            for path in modules()
            if is_in(path, part)
            for used, name in imported_from_host(parsed(path))
        )
    }
    assert unused == set()
    assert [] == [
        part
        for part in OPENS_FILES
        if not any(accesses(parsed(path)) for path in modules() if is_in(path, part))
    ]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from indico_zodbrepl.host import verbs", ("verbs", "")),
        ("from indico_zodbrepl.host.verbs import fence", ("verbs", "fence")),
        ("def f():\n    from indico_zodbrepl.host.verbs import fence", ("verbs", "fence")),
    ],
)
def test_each_way_to_import_from_host_is_found(code: str, found: tuple[str, str]) -> None:
    assert [found] == list(imported_from_host(ast.parse(code)))


class Accesses(ast.NodeVisitor):
    """The lines of one function that open a path of a node, or name /proc."""

    def __init__(self, helpers: set[str]) -> None:
        self.helpers = helpers
        self.names: set[str] = set()
        self.lines: set[int] = set()

    def is_of_node(self, tree: ast.AST) -> bool:
        """Return True if an expression is made of a node's path."""
        for part in ast.walk(tree):
            if isinstance(part, ast.Attribute) and part.attr == "data_directory":
                return True
            if isinstance(part, ast.Name) and part.id in self.names:
                return True
            if isinstance(part, ast.Call) and called(part) in NODE_PATHS | self.helpers:
                return True
        return False

    def visit_Assign(self, node: ast.Assign) -> None:
        if self.is_of_node(node.value) and not isinstance(node.value, ast.Compare):
            for target in node.targets:
                self.names |= {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Attribute):
            module = getattr(function.value, "id", "")
            by_module = module in FILE_MODULES and any(map(self.is_of_node, node.args))
            if by_module or (function.attr in ACCESS and self.is_of_node(function.value)):
                self.lines.add(node.lineno)
            backend = isinstance(function.value, ast.Call) and called(function.value) in BACKENDS
            if function.attr in ACTS and backend:
                self.lines.add(node.lineno)
        elif called(node) in FILE_FUNCTIONS and any(map(self.is_of_node, node.args)):
            self.lines.add(node.lineno)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.startswith("/proc"):
            self.lines.add(node.lineno)


def called(node: ast.Call) -> str:
    return getattr(node.func, "attr", "") or getattr(node.func, "id", "")


def accesses(tree: ast.AST) -> list[int]:
    """Return the lines of a module that open a node's files, act by its backend or read /proc."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    helpers = {
        function.name
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and node.value and is_path(node.value)
    }
    found: set[int] = set()
    for each in [tree, *functions]:
        visitor = Accesses(helpers)
        # A path may be assigned after a loop's first use of it: what is known is used twice.
        visitor.visit(each)
        visitor.visit(each)
        if each is not tree:
            found |= visitor.lines
    top = Accesses(helpers)
    for node in getattr(tree, "body", []):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            top.visit(node)
    return sorted(found | top.lines)


def is_path(value: ast.AST) -> bool:
    """Return True if an expression is a path of a node, and no more."""
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        value = value.left
    if isinstance(value, ast.Call):
        return called(value) in NODE_PATHS
    return isinstance(value, ast.Attribute) and value.attr == "data_directory"


def test_a_nodes_files_are_opened_in_host_alone() -> None:
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in modules()
        if not any(is_in(path, part) for part in OPENS_FILES) and (lines := accesses(parsed(path)))
    }
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        "x = data_fs(node).stat()",
        "x = node.data_directory.is_dir()",
        "x = os.stat(node.data_directory)",
        "x = shutil.disk_usage(nearest(node.data_directory))",
        "file = data_fs(node)\n    with file.open() as data: pass",
        "with open(state_file(node)) as data: pass",
        "folder, name = node.data_directory, 'x'\n    (folder / name).rename(name)",
        "x = (node.data_directory / 'Data.fs.old').exists()",
        "x = backend_of(cluster).has_data(cluster, node)",
        "x = Path(f'/proc/{pid}/stat').read_text()",
        "x = part(node).exists()",
    ],
)
def test_an_access_to_a_nodes_files_is_found(code: str) -> None:
    helper = "def part(node):\n    return node.data_directory / 'seed' / 'Data.fs'\n"
    assert accesses(ast.parse(f"{helper}def look(node):\n    {code}\n"))


@pytest.mark.parametrize(
    "code",
    [
        "x = f'make room: df -h {node.data_directory}'",
        "x = str(data_fs(node)) in error.detail",
        "x = host.has_folder(node.name)",
        "x = Layout(cluster).journal.read_text()",
    ],
)
def test_the_name_of_a_nodes_file_may_be_shown(code: str) -> None:
    assert [] == accesses(ast.parse(f"def look(node):\n    {code}\n"))
