"""Collect the errors that the code can raise: NOTICE, DETAIL, HINT and exit code.

Texts are patterns: ``*`` stands for a value that is only known when the command runs.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from indico_zodbrepl.errors import ExitCode

ROOT = "OperatorError"
PY27 = "indico_zodbrepl.host.py27"
ARGUMENTS = {
    ROOT: ("notice", "detail", "hint", "exit_code"),
    "Refusal": ("notice", "hint"),
    "Program": ("module", "failure", "exit_codes", "accepted", "hint"),
}
DEEPEST = 4
MOST_TEXTS = 4


class Notice(NamedTuple):
    """One kind of error.

    Attributes:
        module: that raises it, as a path below the package.
        notice: its NOTICE.
        details, hints: what DETAIL and HINT may say.
        codes: exit codes; empty if the exit code is that of the cause.
    """

    module: str
    notice: str
    details: tuple[str, ...]
    hints: tuple[str, ...]
    codes: frozenset[ExitCode]


class _Source(NamedTuple):
    """A module of the package."""

    name: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]

    def enclosing(self, node: ast.AST) -> ast.FunctionDef | None:
        """Return the function around a node."""
        while (above := self.parents.get(node)) is not None:
            if isinstance(above, ast.FunctionDef):
                return above
            node = above
        return None


def collect(package: Path) -> list[Notice]:
    """Return each error that the control plane raises, one for each NOTICE of a module.

    Args:
        package: folder of ``indico_zodbrepl``.
    """
    sources = [
        _source(file, package)
        for file in sorted(package.rglob("*.py"))
        if file.relative_to(package).parts[0] != "dataplane"
    ]
    texts = _Texts(sources)
    found: dict[tuple[str, str], list[Notice]] = defaultdict(list)
    for source in sources:
        for notice in texts.notices(source):
            found[notice.module, notice.notice].append(notice)
    return [
        Notice(
            *key,
            _distinct(text for one in same for text in one.details),
            _distinct(text for one in same for text in one.hints),
            frozenset().union(*(one.codes for one in same)),
        )
        for key, same in found.items()
    ]


def _source(file: Path, package: Path) -> _Source:
    tree = ast.parse(file.read_text())
    parents = {below: node for node in ast.walk(tree) for below in ast.iter_child_nodes(node)}
    return _Source(str(file.relative_to(package).with_suffix("")), tree, parents)


def _distinct(texts: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _called(node: ast.AST) -> str:
    """Return the last name of the function that a call calls; empty for anything else."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _has_words(text: str) -> bool:
    return re.search(r"[a-z]{2}", text) is not None


class _Texts:
    """Finds the texts that an expression may have, without running it."""

    def __init__(self, sources: Sequence[_Source]) -> None:
        self._sources = sources
        self._functions: dict[str, list[tuple[_Source, ast.FunctionDef]]] = defaultdict(list)
        self._calls: dict[str, list[tuple[_Source, ast.Call]]] = defaultdict(list)
        self._constants: dict[str, list[tuple[_Source, ast.expr]]] = defaultdict(list)
        classes: list[ast.ClassDef] = []
        for source in sources:
            for node in ast.walk(source.tree):
                if isinstance(node, ast.FunctionDef):
                    self._functions[node.name].append((source, node))
                elif isinstance(node, ast.Call):
                    self._calls[_called(node)].append((source, node))
                elif isinstance(node, ast.ClassDef):
                    classes.append(node)
            for statement in source.tree.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    self._constants[statement.targets[0].id].append((source, statement.value))
        self._errors = _subclasses(classes)

    def notices(self, source: _Source) -> Iterator[Notice]:
        """Yield the errors that a module raises, in the order of its lines."""
        ours = any(
            isinstance(node, ast.ImportFrom) and node.module == PY27 for node in source.tree.body
        )
        for node in ast.walk(source.tree):
            name = _called(node)
            if isinstance(node, ast.Call) and (
                name in self._errors or name == "Refusal" or (name == "Program" and ours)
            ):
                yield from self._of_call(source, node, name if name in ARGUMENTS else ROOT)

    def _of_call(self, source: _Source, call: ast.Call, kind: str) -> Iterator[Notice]:
        given = dict(zip(ARGUMENTS[kind], call.args, strict=False))
        given |= {each.arg: each.value for each in call.keywords if each.arg}
        notice = given.get("notice", given.get("failure"))
        if notice is None:
            return
        details = self._texts(given.get("detail"), source, 0)
        hints = self._texts(given.get("hint"), source, 0)
        for text in self._texts(notice, source, 0):
            if _has_words(text):
                yield Notice(
                    source.name,
                    text,
                    tuple(each for each in details if _has_words(each)),
                    tuple(each for each in hints if _has_words(each)),
                    self._codes(source, given, kind),
                )

    def _codes(self, source: _Source, given: dict[str, ast.expr], kind: str) -> frozenset[ExitCode]:
        if kind == "Refusal":
            return frozenset({ExitCode.REFUSED})
        where = given.get("exit_code", given.get("exit_codes"))
        if where is None:
            return frozenset({ExitCode.FAILED})
        named = {
            ExitCode[node.attr]
            for value in (where, *self._values(where, source))
            for node in ast.walk(value)
            if isinstance(node, ast.Attribute) and node.attr in ExitCode.__members__
        }
        return frozenset(named | {ExitCode.FAILED} if kind == "Program" else named)

    def _values(self, name: ast.expr, source: _Source) -> list[ast.expr]:
        """Return what is assigned to a name of the module or of the function around it."""
        if not isinstance(name, ast.Name):
            return []
        assigned = [value for home, value in self._constants[name.id] if home is source]
        for node in ast.walk(source.enclosing(name) or ast.Module([], [])):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    assigned += _assigned(target, node.value, name.id)
        return assigned

    def _texts(self, node: ast.AST | None, source: _Source, depth: int) -> list[str]:
        """Return the texts that an expression may have; ``*`` where that is unknown."""
        found = list(dict.fromkeys(self._found(node, source, depth))) if node is not None else []
        return found[:MOST_TEXTS]

    def _found(self, node: ast.AST, source: _Source, depth: int) -> list[str]:
        if depth > DEEPEST:
            return ["*"]
        match node:
            case ast.Constant():
                texts = [str(node.value)] if node.value not in ("", None) else []
            case ast.JoinedStr():
                texts = [
                    text.replace("``", "`") for text in self._joined(node.values, source, depth)
                ]
            case ast.FormattedValue():
                inner = self._texts(node.value, source, depth + 1) or ["*"]
                texts = [text if _is_command(text) else "*" for text in inner]
            case ast.IfExp():
                texts = self._either((node.body, node.orelse), source, depth)
            case ast.BoolOp():
                texts = self._either(node.values, source, depth)
            case ast.BinOp(op=ast.Add()):
                texts = self._joined((node.left, node.right), source, depth)
            case ast.Name():
                texts = self._of_name(node, source, depth + 1)
            case ast.Call():
                texts = self._of_call_text(node, source, depth + 1)
            case _:
                texts = ["*"]
        return texts

    def _joined(self, parts: Sequence[ast.expr], source: _Source, depth: int) -> list[str]:
        texts = [self._texts(part, source, depth) or [""] for part in parts]
        return ["".join(each) for each in itertools.product(*texts)]

    def _either(self, nodes: Sequence[ast.expr], source: _Source, depth: int) -> list[str]:
        return [text for node in nodes for text in self._texts(node, source, depth)]

    def _of_call_text(self, call: ast.Call, source: _Source, depth: int) -> list[str]:
        name = _called(call)
        if name == "_":
            values = {
                each.arg: (self._texts(each.value, source, depth) or ["*"])[0]
                for each in call.keywords
            }
            return [
                re.sub(
                    r"%\((\w+)\)s",
                    lambda key: text if _is_command(text := values.get(key[1], "*")) else "*",
                    template,
                )
                for template in self._texts(call.args[0], source, depth)
            ]
        if name in ("zodbrepl", "supervisorctl"):
            arguments = call.args if isinstance(call.func, ast.Attribute) else call.args[2:]
            return [f"`{' '.join([f'bin/{name}', *map(_argument, arguments)])}`"]
        if name == "join" and call.args and isinstance(call.args[0], ast.List):
            return [f"`{' '.join(map(_argument, call.args[0].elts))}`"]
        if len(self._functions[name]) == 1 and name not in ("str", "join"):
            home, function = self._functions[name][0]
            returned = [
                node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Return) and home.enclosing(node) is function
            ]
            texts = [text for node in returned for text in self._texts(node, home, depth)]
            return texts or ["*"]
        return ["*"]

    def _of_name(self, name: ast.Name, source: _Source, depth: int) -> list[str]:
        if assigned := self._values(name, source):
            return self._either(assigned, source, depth)
        function = source.enclosing(name)
        given = self._given(function, name.id, depth) if function else None
        if given is not None:
            return given
        constants = self._constants[name.id]
        return (
            self._texts(constants[0][1], constants[0][0], depth) if len(constants) == 1 else ["*"]
        )

    def _given(self, function: ast.FunctionDef, name: str, depth: int) -> list[str] | None:
        """Return what callers give as an argument; None if it is no argument."""
        arguments = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
        if name not in arguments:
            return None
        position = arguments.index(name) - (arguments[0] in ("self", "cls"))
        found = []
        calls = self._calls[function.name] if len(self._functions[function.name]) == 1 else []
        for source, call in calls:
            named = [each.value for each in call.keywords if each.arg == name]
            values = named or call.args[position : position + 1]
            found += [text for each in values for text in self._texts(each, source, depth)]
        return found or (["*"] if not calls else [])


def _subclasses(classes: Sequence[ast.ClassDef]) -> set[str]:
    """Return the names of the error for operators and of the classes below it."""
    names = {ROOT}
    while True:
        more = {
            each.name
            for each in classes
            if any(isinstance(base, ast.Name) and base.id in names for base in each.bases)
        }
        if more <= names:
            return names
        names |= more


def _assigned(target: ast.expr, value: ast.expr, name: str) -> list[ast.expr]:
    """Return what an assignment gives to a name, also as one of several."""
    if isinstance(target, ast.Name):
        return [value] if target.id == name else []
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=True)
        return [found for each in pairs for found in _assigned(*each, name)]
    return []


def _is_command(text: str) -> bool:
    return "`" in text or "bin/" in text


def _argument(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values
        )
    return "*"
