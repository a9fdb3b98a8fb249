"""JSON schemas of dataclasses: what ``dataclasses.asdict`` makes of them, with their docstrings."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Union, cast

from indico_zodbrepl.failover import steps
from indico_zodbrepl.monitor import procedures
from indico_zodbrepl.monitor.snapshot import TIDS

Schema = dict[str, Any]

PLAIN: dict[Any, Schema] = {
    bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"},
    str: {"type": "string"}, type(None): {"type": "null"}}

NAMES: dict[type, str] = {procedures.Step: "ProcedureStep", steps.Step: "PlannedStep"}
"""Of classes whose own name another one has too."""


class Schemas:
    """Schemas by the names of their classes, as ``components/schemas`` has them.

    Attributes:
        found: grows with each class that is asked for, and those it is made of.
    """

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {}
        self._kinds: dict[str, type] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of a type: a reference when it is a dataclass or an enumeration.

        Raises TypeError for types that have no place in our JSON.
        """
        if kind in PLAIN:
            return dict(PLAIN[kind])
        if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
            return self._named(kind, lambda: _enumeration(kind))
        if dataclasses.is_dataclass(kind):
            return self._named(cast(type, kind), lambda: self._object(cast(type, kind)))
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is tuple and arguments[1:] == (...,):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is Mapping:
            return {"type": "object", "additionalProperties":
                    self.of(arguments[1]) if arguments[1] is str else True}
        if origin in (Union, types.UnionType):
            return _either([self.of(each) for each in arguments])
        raise TypeError(f"no schema for {kind!r}")

    def _named(self, kind: type, make: Callable[[], Schema]) -> Schema:
        name = NAMES.get(kind, kind.__name__)
        if self._kinds.setdefault(name, kind) is not kind:
            raise TypeError(f"two classes are called {name}: add one of them to NAMES")
        if name not in self.found:
            self.found[name] = make()
        return {"$ref": f"#/components/schemas/{name}"}

    def _object(self, kind: type) -> Schema:
        said, about = _sentences(kind)
        hints = typing.get_type_hints(kind, localns={"JsonValue": Any})  # it refers to itself
        fields = [field.name for field in dataclasses.fields(kind)]
        return {"type": "object", "description": said, "required": fields,
                "additionalProperties": False,
                "properties": {name: self._field(name, hints[name], about) for name in fields}}

    def _field(self, name: str, kind: Any, about: Mapping[str, str]) -> Schema:
        schema = _hex(kind) if name in TIDS else self.of(kind)
        return {**schema, "description": about[name]} if name in about else schema


def _hex(kind: Any) -> Schema:
    """Tids are rendered as text, since they exceed JavaScript's numbers."""
    found: Schema = {"type": "string", "pattern": "^0x[0-9a-f]{16}$"}
    return {**found, "type": ["string", "null"]} if type(None) in typing.get_args(kind) else found


def _either(schemas: list[Schema]) -> Schema:
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _enumeration(kind: type[enum.StrEnum]) -> Schema:
    return {"type": "string", "enum": [each.value for each in kind],
            "description": _sentences(kind)[0]}


def _sentences(kind: type) -> tuple[str, dict[str, str]]:
    """What a docstring says of a class, and of each of its attributes; those of its bases too."""
    said = ""
    about: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        said, _heading, rows = inspect.cleandoc(each.__doc__ or "").partition(
            "\n\nAttributes:\n")
        for names, text in re.findall(r"^ {4}(\S[^:\n]*): (.*(?:\n {8}.*)*)", rows, re.MULTILINE):
            about |= dict.fromkeys(names.split(", "), _one_line(text))
    return _one_line(said), about


def _one_line(text: str) -> str:
    """Without line ends, and with JSON's word for nothing."""
    text = re.sub(r"\bNone\b", "null", text.replace("``", "`"))
    return re.sub(r"\s+", " ", text).strip()
