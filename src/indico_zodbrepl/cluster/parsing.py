"""A ZConfig loader that remembers the line of each section and key.

ZConfig reports the line of an error of syntax or type, but forgets the lines of accepted keys.
The rules between sections need those too.  This module is imported when a cluster file is read:
ZConfig takes longer to import than `--help` takes to run.
"""

from __future__ import annotations

import functools
import io
import re
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

import ZConfig
from ZConfig.cfgparser import ZConfigParser
from ZConfig.loader import ConfigLoader
from ZConfig.substitution import substitute

from indico_zodbrepl.cluster import datatypes
from indico_zodbrepl.cluster.places import Position, Positions

SECTIONS = (
    "host",
    "node",
    "neo",
    "sqlite",
    "postgresql",
    "mariadb",
    "oracle",
    "indico",
    "mail",
    "admin",
    "watch",
    "etcd",
)
_MOVED = {
    (section, "synchronous"): "use the key synchronous outside of the sections, with a number"
    for section in ("postgresql", "mariadb")
}
"""Keys of earlier releases, by section, and what replaces them."""
HOME_VARIABLE = "$(ZODBREPL_HOME)"


def parse(path: Path, text: str, home: Path) -> tuple[Any, Positions]:
    """Return ZConfig's values of a cluster file, and their positions.

    Args:
        path: of the file, for messages.
        text: of the file.
        home: the value of ``$(ZODBREPL_HOME)``.

    Raises ValueError with a message ``file:line: problem``.
    """
    loader = PositionedLoader(schema(), home)
    try:
        values, _handlers = loader.loadFile(io.StringIO(text), path.as_uri())
    except ZConfig.ConfigurationError as error:
        raise ValueError(f"{loader.where(error, path)}: {_plain(error.message)}") from error
    return values, loader.positions


@functools.cache
def schema() -> Any:
    """Return the ZConfig schema of cluster files, which nothing changes."""
    text = Path(__file__).with_name("schema.xml").read_text("utf-8")
    return ZConfig.loadSchemaFile(io.StringIO(text), "package:schema.xml")


def _plain(message: str) -> str:
    message = re.sub(
        "not enough values for section type '(.*)'; 0 found, 1 required",
        r"section <\1> is missing",
        message,
    )
    message = re.sub(
        "no values for section type '(.*)'; 1 required", r"section <\1> is missing", message
    )
    return re.sub("no values for ('.*'); 1 required", r"key \1 is missing", message)


class PositionedLoader(ConfigLoader):  # type: ignore[misc]  # ZConfig is untyped
    """A loader of one cluster file that keeps its positions in ``positions``.

    Use it once, from one thread.  ``loadFile`` raises only subclasses of
    ``ZConfig.ConfigurationError``.
    """

    def __init__(self, schema: Any, home: Path) -> None:
        super().__init__(schema)
        self.positions: Positions = Positions()
        self._home = home
        self._parser: _Parser | None = None

    def where(self, error: ZConfig.ConfigurationError, path: Path) -> Position:
        """Return the position of an error; line 1 of ``path`` for a missing section or key."""
        url = getattr(error, "url", None)
        line = getattr(error, "lineno", None)
        return Position(_path_of(url) if url else path, line if line and line > 0 else 1)

    def openResource(self, url: str) -> Any:  # noqa: N802  # ZConfig's name
        path = _path_of(url)
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            self._fail(f"cannot read {path}: {error.strerror}")
        except UnicodeDecodeError as error:
            self._fail(f"{path} is not UTF-8 text: {error}")
        return self.createResource(io.StringIO(text), url)

    def startSection(  # noqa: N802  # ZConfig's name
        self, parent: Any, type_: str, name: str | None
    ) -> Any:
        if type_ not in SECTIONS:
            raise ZConfig.ConfigurationError(
                f"unknown section <{type_}> (known: {', '.join(SECTIONS)})"
            )
        if hasattr(parent, "opened_at"):
            raise ZConfig.ConfigurationError(
                f"<{type_}> is not allowed inside <{_title(parent)}>; "
                f"is </{parent.type.name}> missing?"
            )
        if name is not None:
            try:
                datatypes.name(name)
            except ValueError as error:
                raise ZConfig.ConfigurationError(str(error)) from error
            if (earlier := self.positions.section(name)) is not None:
                raise ZConfig.ConfigurationError(f"the name {name!r} is already used at {earlier}")
        matcher = super().startSection(parent, type_, name)
        matcher.opened_at = self._position()
        self.positions.add(matcher.opened_at, type_, name)
        return matcher

    def importSchemaComponent(self, pkgname: str) -> NoReturn:  # noqa: N802  # ZConfig's name
        self._fail(f"%import {pkgname}: not allowed in a cluster file")

    def note_key(self, section: Any, key: str) -> None:
        """Record the position of a key; the parser calls this before it stores the value."""
        kind = section.type.name if hasattr(section, "opened_at") else None
        known = sorted(
            known_key for known_key, info in section.type if known_key and not info.issection()
        )
        if key.lower() not in known and (str(kind), key.lower()) in _MOVED:
            self._fail(f"{key} is no key of <{kind}> any more: {_MOVED[str(kind), key.lower()]}")
        if key.lower() not in known:
            import difflib  # noqa: PLC0415  # only a wrong file needs it

            close = difflib.get_close_matches(key.lower(), known, n=1)
            guess = f"; did you mean {close[0]!r}?" if close else f" (known: {', '.join(known)})"
            place = f" in <{_title(section)}>" if kind else ""
            self._fail(f"unknown key {key!r}{place}{guess}")
        name = getattr(section, "name", None)
        self.positions.add(self._position(), kind, name, key.lower())

    def _parse_resource(self, matcher: Any, resource: Any, defines: Any = None) -> None:
        outer, self._parser = self._parser, _Parser(resource, self, defines, self._home)
        try:
            self._parser.parse(matcher)
        finally:
            self._parser = outer

    def _position(self) -> Position:
        if self._parser is None:
            raise RuntimeError("positions are known only while a file is read")
        return Position(_path_of(self._parser.url), self._parser.lineno)

    def _fail(self, message: str) -> NoReturn:
        if self._parser is None:
            raise ZConfig.ConfigurationError(message)
        self._parser.error(message)
        raise AssertionError("not reached")


class _Parser(ZConfigParser):  # type: ignore[misc]  # ZConfig is untyped
    def __init__(self, resource: Any, context: PositionedLoader, defines: Any, home: Path) -> None:
        super().__init__(resource, context, defines)
        self._home = home

    def handle_key_value(self, section: Any, rest: str) -> None:
        self.context.note_key(section, rest.split(None, 1)[0])
        super().handle_key_value(section, rest)

    def end_section(self, section: Any, rest: str) -> Any:
        balanced = bool(self.stack) and rest.strip().lower() == self.stack[-1][0]
        try:
            return super().end_section(section, rest)
        except ZConfig.ConfigurationSyntaxError as error:
            if balanced:
                error.message = f"<{_title(section)}>: {error.message}"
                error.lineno = section.opened_at.line
            raise

    def replace(self, text: str) -> str:
        try:
            return str(self._home).join(
                substitute(part, self.defines) for part in text.split(HOME_VARIABLE)
            )
        except (ZConfig.SubstitutionReplacementError, ZConfig.SubstitutionSyntaxError) as error:
            error.lineno = self.lineno
            error.url = self.url
            raise


def _title(section: Any) -> str:
    name = getattr(section, "name", None)
    return f"{section.type.name} {name}" if name else str(section.type.name)


def _path_of(url: str) -> Path:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "file":
        raise ZConfig.ConfigurationError(f"not a file: {url}")
    return Path(urllib.request.url2pathname(parts.path))
