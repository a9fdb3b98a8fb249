"""Convert the arguments and results of the host interface to JSON and back, by its type hints."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from indico_zodbrepl.cluster import NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import (
    backup,
    backup_retention,
    candidacy,
    data_end,
    data_interface,
    datafs,
    disks,
    epochs,
    exports_interface,
    fencing,
    forcing,
    history,
    interface,
    last_seen,
    logs_interface,
    node_files,
    operations_interface,
    packing,
    promise,
    replacing,
    roles,
    server_control,
    sights,
    sql_export,
    statistics,
    supervisor,
    verifying,
    writers,
)
from indico_zodbrepl.host.data_interface import Backups
from indico_zodbrepl.host.datafs_answers import Progress
from indico_zodbrepl.host.interface import Host
from indico_zodbrepl.host.logs_interface import Logs
from indico_zodbrepl.host.remote.administration import HostAdministration
from indico_zodbrepl.probing import typed_json

_EXIT_CODES = {int(code): code for code in ExitCode}
BACKUPS = "backups."
"""Prefix of the methods of ``Backups`` in the names of calls."""
LOGS = "logs."
"""Prefix of the methods of ``Logs`` in the names of calls."""
ADMINISTRATION = "hosts."
"""Prefix of the methods of ``HostAdministration`` in the names of calls."""

MODULES = (
    backup,
    backup_retention,
    candidacy,
    data_end,
    data_interface,
    datafs,
    disks,
    epochs,
    exports_interface,
    fencing,
    forcing,
    history,
    interface,
    last_seen,
    logs_interface,
    node_files,
    operations_interface,
    packing,
    promise,
    replacing,
    roles,
    server_control,
    sights,
    sql_export,
    statistics,
    supervisor,
    verifying,
    writers,
)
ERRORS: dict[str, type[OperatorError]] = {
    kind.__name__: kind
    for kind in (
        OperatorError,
        node_files.ReplacedError,
        interface.HostAwayError,
        operations_interface.LockLostError,
        packing.PackedInPart,
        server_control.NoServerError,
        server_control.ServerRefusedError,
        server_control.ServerSilentError,
        sql_export.DiffersError,
        sql_export.UnreadableError,
        supervisor.SupervisorAwayError,
        supervisor.SupervisorSilentError,
    )
}
"""The kinds of errors that keep their class on the way; all others become OperatorError."""


class WireError(msgspec.Struct):
    """An OperatorError as JSON."""

    kind: str
    notice: str
    detail: str
    hint: str
    exit_code: int


@dataclasses.dataclass(frozen=True)
class Signature:
    """A method of the interface: the types of its arguments, progress reports and result.

    Attributes:
        arguments: type of each argument by name, without callbacks.
        order: the names of all arguments, callbacks included.
        more: True if it takes other arguments by name too, which are plain JSON.
        callback: name of the argument that is called with progress; empty if there is none.
        progress: type of what it is called with.
        result: type of the result.
    """

    arguments: Mapping[str, Any]
    order: tuple[str, ...]
    more: bool
    callback: str
    progress: Any
    result: Any

    def bind(self, values: tuple[object, ...], named: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments of a call by name.  Raises TypeError as the call would."""
        if len(values) > len(self.order):
            raise TypeError(f"{len(values)} arguments for {len(self.order)}")
        given = dict(zip(self.order, values, strict=False))
        unknown = set(named) - set(self.order)
        if unknown and not self.more:
            raise TypeError(f"unknown arguments {', '.join(sorted(unknown))}")
        if set(given) & set(named):
            raise TypeError("an argument is given twice")
        return given | dict(named)


def names_of_types() -> dict[str, Any]:
    """Return the names that the interface uses only for type checking."""
    found: dict[str, Any] = {
        "Cluster": object,
        "Installation": Installation,
        "Identity": object,
    }
    for module in MODULES:
        found |= {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return found | {
        "NodeState": NodeState,
        "Role": Role,
        "OperatorError": OperatorError,
        "Report": Callable[[Progress], None],
        "Progress": Progress,
        "Walked": statistics.Progress,
        "Path": Path,
        "Any": Any,
    }


@functools.cache
def signatures() -> dict[str, Signature]:
    """Return the signature of each method that can be called remotely, by the name of the call."""
    names = names_of_types()
    found = {name: _signature(names, method) for name, method in _methods(Host)}
    for prefix, further in (
        (BACKUPS, Backups),
        (LOGS, Logs),
        (ADMINISTRATION, HostAdministration),
    ):
        found |= {prefix + name: _signature(names, each) for name, each in _methods(further)}
    for name in LOCAL_ONLY:
        del found[name]
    return found


def part_of(host: Host, method: str) -> tuple[Any, str]:
    """Return the object of a call to a host, and the name of its method.

    Args:
        method: the name of the call; of any but ``HostAdministration``.
    """
    if method.startswith(BACKUPS):
        return host.backups(), method.removeprefix(BACKUPS)
    if method.startswith(LOGS):
        return host.logs(), method.removeprefix(LOGS)
    return host, method


LOCAL_ONLY = (
    "agreed_promise",
    "backups",
    "catch_up",
    "every_export",
    "hold_lock",
    "identity",
    "likely_lock_holder",
    "lock_holders",
    "logs",
    "logs.every",
    "logs.every_warning",
    "logs.whole",
    "packed_export",
    "spread_operations",
)
"""Methods that need more than JSON (a class, an interface of its own), or call all hosts."""


def _methods(interface: type) -> list[tuple[str, Any]]:
    return [
        (name, method)
        for name, method in inspect.getmembers(interface, inspect.isfunction)
        if not name.startswith("_")
    ]


def _signature(names: dict[str, Any], method: Any) -> Signature:
    hints = typing.get_type_hints(method, localns=names)
    result = hints.pop("return", None)
    parameters = [
        each for each in inspect.signature(method).parameters.values() if each.name != "self"
    ]
    plain = [each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    callback, progress, arguments = "", None, {}
    for each in plain:
        kind = hints.get(each.name, Any)
        reported = _reported(kind)
        if reported is None:
            arguments[each.name] = kind
        else:
            callback, progress = each.name, reported
    order = tuple(each.name for each in plain)
    more = len(plain) < len(parameters)
    return Signature(arguments, order, more, callback, progress, result)


def _reported(kind: Any) -> Any:
    """Return what a callback is called with; None for another type."""
    for each in (kind, *typing.get_args(kind)):
        if typing.get_origin(each) is Callable:
            return typing.get_args(each)[0][0]
    return None


def encode(value: object) -> bytes:
    """Return a value as JSON in one line.  Raises TypeError for a type that is not known."""
    return msgspec.json.encode(value, enc_hook=_to_json)


def decode(content: bytes, kind: Any) -> Any:
    """Return a value of a type.  Raises msgspec.MsgspecError."""
    return typed_json.decode(content, kind, _from_json)


def error_of(error: OperatorError) -> WireError:
    """Return an error as it is sent."""
    kind = type(error).__name__ if type(error).__name__ in ERRORS else OperatorError.__name__
    return WireError(kind, error.notice, error.detail, error.hint, int(error.exit_code))


def raised(error: WireError) -> OperatorError:
    """Return the error that was sent."""
    code = _EXIT_CODES.get(error.exit_code, ExitCode.FAILED)  # an unknown one is a newer release's
    kind = ERRORS.get(error.kind, OperatorError)
    return kind(error.notice, error.detail, error.hint, code)


def _to_json(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, OperatorError):
        return msgspec.to_builtins(error_of(value))
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} can't be sent to another host")


def _from_json(kind: type, value: Any) -> Any:
    if kind is Path or (isinstance(kind, type) and issubclass(kind, Path)):
        return Path(value)
    if kind is OperatorError:
        return raised(typed_json.convert(value, WireError))
    return value
