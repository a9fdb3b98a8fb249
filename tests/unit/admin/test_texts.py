"""All texts of the page can be translated, and its translation is what people see."""

from __future__ import annotations

import dataclasses
import enum
import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from bs4 import BeautifulSoup, Tag
from bs4.element import Comment, Doctype
from flask import template_rendered
from flask.testing import FlaskClient
from jinja2 import Environment, nodes
from situations import ALL_STOPPED, HEALTHY, PRIMARY_KILLED, SECONDARY_KILLED, UNKNOWN

from indico_zodbrepl.admin import languages
from indico_zodbrepl.bench.suites import in_app
from indico_zodbrepl.operations.operation import Outcome

MakeClient = Callable[..., FlaskClient]
HOME = Path(__file__).parents[3]
ADMIN = HOME / "src/indico_zodbrepl/admin"
TEMPLATES = sorted((ADMIN / "templates").glob("*.html"))
CATALOGUE = ADMIN / "translations/messages.pot"
GETTEXT = {"_", "gettext", "ngettext", "lazy_gettext"}
FOR_PEOPLE = {"aria-label", "title", "alt", "placeholder", "label"}
"""Attributes that people read; of data-* all but those of NOT_TEXT."""
NOT_TEXT = {"data-live", "data-taken", "data-unknown", "data-key", "data-state", "data-primary"}
SYMBOLS = {"s", "ms", "h", "UTC", "p50", "p90", "p99", "max", "MiB", "KiB", "GiB"}
"""The same in all languages."""
OURS = "indico_zodbrepl."
OF_FLASK = {"request", "session", "g", "config", "csrf_token", "form"}
OTHER = "eo"
LETTERS = re.compile(r"[^\W_]*[^\W\d_][^\W_]*")


@pytest.fixture(scope="module")
def texts() -> ModuleType:
    """tools/texts as a module."""
    loader = importlib.machinery.SourceFileLoader("texts", str(HOME / "tools/texts"))
    spec = importlib.util.spec_from_loader("texts", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_catalogue_has_the_texts_that_there_are(texts: ModuleType) -> None:
    """When this fails: bin/control-python tools/texts"""
    assert texts.written() == CATALOGUE.read_text("utf-8")


def is_of_people(attribute: str) -> bool:
    return attribute in FOR_PEOPLE or (attribute.startswith("data-") and attribute not in NOT_TEXT)


def words(text: str) -> list[str]:
    return [word for word in LETTERS.findall(text) if word not in SYMBOLS]


class Skeleton:
    """A template's own HTML: each expression is a number in it, and what it writes kept.

    Attributes:
        html: with ``\x00number\x00`` in the place of an expression.
        said: texts that an expression may write without gettext, by its number.
    """

    def __init__(self, environment: Environment, source: str) -> None:
        self.html = ""
        self.said: list[list[str]] = []
        self._values: dict[str, list[nodes.Expr]] = {}
        tree = environment.parse(source)
        for assigned in tree.find_all(nodes.Assign):
            self._keep(assigned.target, assigned.node, each=False)
        for loop in tree.find_all(nodes.For):
            self._keep(loop.target, loop.iter, each=True)
        self._write(tree)

    def _keep(self, target: nodes.Node, value: nodes.Node, *, each: bool) -> None:
        values = value.items if each and isinstance(value, nodes.Tuple | nodes.List) else [value]
        for one in values:
            if isinstance(target, nodes.Tuple) and isinstance(one, nodes.Tuple):
                for name, part in zip(target.items, one.items, strict=True):
                    self._keep(name, part, each=False)
            elif isinstance(target, nodes.Name) and isinstance(one, nodes.Expr):
                self._values.setdefault(target.name, []).append(one)

    def _write(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.Output):
            for part in node.nodes:
                if isinstance(part, nodes.TemplateData):
                    self.html += part.data
                else:
                    self.html += f"\x00{len(self.said)}\x00"
                    self.said.append(list(self._said(part, frozenset())))
            return
        for child in node.iter_child_nodes():
            if not isinstance(child, nodes.Expr):
                self._write(child)

    def _items(self, taken: nodes.Getitem) -> Iterator[nodes.Expr]:
        """What may be taken out of a mapping or a tuple that is written down."""
        of: list[nodes.Expr] = [taken.node]
        if isinstance(taken.node, nodes.Name):
            of = self._values.get(taken.node.name, [])
        for each in of:
            for one in self._items(each) if isinstance(each, nodes.Getitem) else [each]:
                if isinstance(one, nodes.Dict):
                    yield from (pair.value for pair in one.items)
                elif isinstance(one, nodes.Tuple) and isinstance(taken.arg, nodes.Const):
                    yield from one.items[taken.arg.value : taken.arg.value + 1]

    def _said(self, written: nodes.Expr, names: frozenset[str]) -> Iterator[str]:
        """Constants among what an expression may give."""
        parts: list[nodes.Expr | None] = []
        if isinstance(written, nodes.Const) and isinstance(written.value, str):
            yield written.value
        elif isinstance(written, nodes.CondExpr):
            parts = [written.expr1, written.expr2]
        elif isinstance(written, nodes.Or | nodes.And | nodes.Add):
            parts = [written.left, written.right]
        elif isinstance(written, nodes.Mod):
            parts = [written.left]
        elif isinstance(written, nodes.Concat):
            parts = list(written.nodes)
        elif isinstance(written, nodes.Filter):
            parts = [written.node, *(written.args if written.name in ("join", "default") else [])]
        elif isinstance(written, nodes.Getitem):
            parts = list(self._items(written))
        elif isinstance(written, nodes.Dict):
            parts = [pair.value for pair in written.items]
        elif isinstance(written, nodes.Tuple | nodes.List):
            parts = list(written.items)
        elif isinstance(written, nodes.Name) and written.name not in names:
            parts = list(self._values.get(written.name, []))
            names |= {written.name}
        for part in parts:
            if part is not None:
                yield from self._said(part, names)

    def bare(self) -> list[str]:
        """Texts for people that don't go through gettext."""
        page = BeautifulSoup(self.html, "html.parser")
        for tag in page.find_all(["code", "pre", "kbd"]):
            tag.clear()
        found = [
            str(text)
            for text in page.find_all(string=True)
            if not isinstance(text, Comment | Doctype)
        ]
        found += [
            str(value)
            for tag in page.find_all(True)
            for name, value in tag.attrs.items()
            if is_of_people(name)
        ]
        for text in list(found):
            for number in re.findall("\x00([0-9]+)\x00", text):
                found += [
                    re.sub("%[.0-9]*[a-z]|{[^}]*}", "", said) for said in self.said[int(number)]
                ]
        return [text.strip() for text in found if words(re.sub("\x00[0-9]+\x00", " ", text))]


@pytest.fixture
def environment(make_client: MakeClient) -> Environment:
    """How the page reads its templates."""
    return make_client().application.jinja_env


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_no_text_that_cannot_be_translated(
    environment: Environment, template: Path
) -> None:
    assert [] == Skeleton(environment, template.read_text("utf-8")).bare()


@pytest.mark.parametrize(
    "source",
    [
        "<p>Nodes</p>",
        "<p>{{ 'none' if node else _('some') }}</p>",
        '<td data-label="Role"></td>',
        "{% set unknown = 'unknown' %}<p>{{ unknown }}</p>",
        "<p>{{ name or 'nobody' }}</p>",
        "{% for title in ('Node', _('Role')) %}<th>{{ title }}</th>{% endfor %}",
        "{% for title, key in ((_('Role'), 1), ('Node', 2)) %}<th>{{ title }}</th>{% endfor %}",
        "{% set how = {1: ('odd', 'fine')}[x] %}<p class='{{ how[0] }}'>{{ how[1] }}</p>",
        "<p>{{ {'a': 'first', 'b': _('second')}[x]|sentence }}</p>",
        "<p>{{ 'epoch ' ~ number }}</p>",
        """<svg aria-label="{% if x %}{{ 'done' }}{% endif %}"></svg>""",
        "{% macro role() %}wrong server{% endmacro %}",
        "<p>{{ names|join(' and ') }}</p>",
    ],
)
def test_a_text_without_gettext_is_found(environment: Environment, source: str) -> None:
    assert [] != Skeleton(environment, source).bare()


def test_what_is_no_text_is_none(environment: Environment) -> None:
    source = """<p class="{{ 'odd' if x else 'quiet' }}">{{ _('one') if x == 'two' else number }} s
              {% set how = {1: ('odd', _('fine'))}[x] %}<i class="{{ how[0] }}">{{ how[1] }}</i>
              <code>bin/zodbrepl up</code><svg aria-label="{{ _('Lag') }}"></svg>
              {% trans %}three{% endtrans %}</p>"""
    assert [] == Skeleton(environment, source).bare()


def test_scripts_have_no_texts_of_their_own() -> None:
    """A text in a script is what comes from data-* of the page; constants are single words."""
    for script in (ADMIN / "static").glob("*.js"):
        code = re.sub(r"//[^\n]*|throw new Error\([^)]*\)", "", script.read_text("utf-8"))
        found = re.findall(r'"[^"\n]*"|`[^`]*`', code)
        assert found
        said = [each for each in found if re.search("[A-Za-z]{2} [A-Za-z]{2}", each)]
        assert ['"use strict"'] == said, script.name


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Another language in which each text stands between brackets."""
    folder = tmp_path_factory.mktemp("translations")
    with CATALOGUE.open("rb") as file:
        source = read_po(file)
    catalogue = Catalog(locale=OTHER)
    for message in source:
        if not message.id:
            continue
        plural = isinstance(message.id, tuple)
        string = tuple(f"⟦{each}⟧" for each in message.id) if plural else f"⟦{message.id}⟧"
        catalogue.add(message.id, string, context=message.context)
    path = folder / OTHER / "LC_MESSAGES/messages.mo"
    path.parent.mkdir(parents=True)
    with path.open("wb") as compiled:
        write_mo(compiled, catalogue)
    monkeypatch.setattr(languages, "FOLDER", folder)


def shown(page: BeautifulSoup) -> Iterator[str]:
    """What people read or hear of a page, without commands, paths and logs."""
    for tag in page.find_all(["code", "pre", "kbd"]):
        tag.clear()
    for tag in page.find_all(True):
        yield from (str(value) for name, value in tag.attrs.items() if is_of_people(name))
    blocks = [
        tag
        for tag in page.find_all(True)
        if any(isinstance(child, str) and child.strip() for child in tag.children)
    ]
    yield from (tag.get_text(" ") for tag in blocks if not under(tag, blocks))


def under(tag: Tag, others: list[Tag]) -> bool:
    return any(parent is each for parent in tag.parents for each in others)


def without_brackets(text: str) -> str:
    """What is not between brackets, which may be within each other."""
    left, depth = "", 0
    for letter in text:
        depth += {"⟦": 1, "⟧": -1}.get(letter, 0)
        left += letter if depth == 0 and letter != "⟧" else " "
    return left


def told(contexts: list[dict[str, Any]]) -> set[str]:
    """All texts in them: of mappings, sequences, and of attributes and properties of our objects.

    What went through gettext is no such text: it is marked, and told apart by that.
    """
    seen: set[int] = set()
    found: set[str] = set()
    for context in contexts:
        for name, value in context.items():
            if name not in OF_FLASK:
                found |= set(_texts(value, seen))
    return {text for text in found if text.strip() and "⟦" not in text}


def _texts(value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, str):
        yield value.value if isinstance(value, enum.Enum) else value
        return
    if id(value) in seen or isinstance(value, int | float | bytes | None):
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key, seen)
            yield from _texts(each, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _texts(each, seen)
    elif dataclasses.is_dataclass(value) and type(value).__module__.startswith(OURS):
        for name in _attributes(value):
            yield from _texts(getattr(value, name), seen)


def _attributes(of: Any) -> Iterator[str]:
    yield from (field.name for field in dataclasses.fields(of) if not field.name.startswith("_"))
    for name, member in vars(type(of)).items():
        if isinstance(member, property) and not name.startswith("_"):
            yield name


def get(client: FlaskClient, path: str, language: str | None = OTHER) -> tuple[str, set[str]]:
    """A page in that language, and what it was told to show."""
    contexts: list[dict[str, Any]] = []

    def keep(_sender: object, context: dict[str, Any], **_more: object) -> None:
        contexts.append(context)

    headers = {} if language is None else {"Accept-Language": language}
    with template_rendered.connected_to(keep, client.application):
        answer = client.get(path, headers=headers)
    choices = {
        "cluster": client.application.jinja_env.globals["cluster"],
        "outcomes": list(Outcome),
        "fields of Indico": in_app.MODIFY,
    }
    return answer.text, told([*contexts, choices])


PATHS = [
    "/",
    "/node/a",
    "/node/b",
    "/operations",
    "/journal",
    "/data",
    "/data/benchmarks",
    "/recover",
    "/incident",
    "/nothing",
    "/operations/current",
    "/node/nobody",
]


@pytest.mark.parametrize(
    "situation",
    [HEALTHY, SECONDARY_KILLED, PRIMARY_KILLED, ALL_STOPPED, UNKNOWN],
    ids=["healthy", "secondary killed", "primary killed", "all stopped", "unknown"],
)
@pytest.mark.usefixtures("translated")
def test_a_page_in_another_language_has_no_english_of_its_own(
    make_client: MakeClient, situation: dict[str, Any]
) -> None:
    client = make_client(**situation)
    for path in PATHS:
        text, given = get(client, path)
        assert f'<html lang="{OTHER}">' in text
        assert "⟦" in text
        for said in shown(BeautifulSoup(text, "html.parser")):
            left = without_brackets(said)
            for each in sorted(given, key=len, reverse=True):
                left = re.sub(rf"(?<!\w){re.escape(each)}(?!\w)", " ", left, flags=re.IGNORECASE)
            assert [] == words(left), f"{path}: {said.strip()!r}"


@pytest.mark.parametrize(
    ("wanted", "language"),
    [
        (None, "en"),
        ("en-GB,en;q=0.9,eo;q=0.5", "en"),
        ("eo", "eo"),
        ("de,eo;q=0.5", "eo"),
        ("de", "en"),
        ("*", "en"),
        ("eo;q=nonsense", "en"),
        ("../../etc", "en"),
    ],
)
@pytest.mark.usefixtures("translated")
def test_the_language_is_the_one_that_the_browser_likes_best(
    make_client: MakeClient, wanted: str | None, language: str
) -> None:
    text, _given = get(make_client(), "/", wanted)
    assert f'<html lang="{language}">' in text
    assert ("⟦Overview⟧" in text) == (language == OTHER)


@pytest.mark.usefixtures("translated")
def test_one_who_asks_after_another_gets_a_language_of_their_own(make_client: MakeClient) -> None:
    """Also what is rendered once for all who look at the same snapshot."""
    client = make_client()
    first, second, third = (get(client, "/", each)[0] for each in ("en", OTHER, "en"))
    assert "⟦Topology⟧" not in first
    assert "⟦Topology⟧" in second
    assert "⟦Topology⟧" not in third


@pytest.mark.usefixtures("translated")
def test_a_page_that_refreshes_itself_is_not_told_that_its_other_language_is_the_same(
    make_client: MakeClient,
) -> None:
    client = make_client()
    tag = client.get("/", headers={"Accept-Language": "en"}).headers["ETag"]
    answer = client.get("/", headers={"Accept-Language": OTHER, "If-None-Match": tag})
    assert 200 == answer.status_code


@pytest.mark.parametrize("path", ["/api/nothing", "/replica?lag=x", "/node/a/b"])
@pytest.mark.usefixtures("translated")
def test_programs_are_answered_in_english(make_client: MakeClient, path: str) -> None:
    text = make_client().get(path, headers={"Accept-Language": OTHER}).text
    assert ("⟦" in text) == path.startswith("/node")


def test_without_a_catalogue_there_is_english_alone() -> None:
    assert [] == languages.available(ADMIN / "translations")


def test_the_catalogue_is_shipped_with_templates_styles_and_scripts(tmp_path: Path) -> None:
    shutil.copy(HOME / "setup.py", tmp_path)
    shutil.copytree(
        HOME / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for carried in ("patches", "bulkloader", "etc"):
        shutil.copytree(HOME / carried, tmp_path / carried)
    subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "-q", "build"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    built = tmp_path / "build/lib/indico_zodbrepl/admin"
    static = (path for path in (ADMIN / "static").rglob("*") if path.is_file())
    expected = [CATALOGUE, *TEMPLATES, *static]
    assert len(expected) > 30
    assert [] == [path.name for path in expected if not (built / path.relative_to(ADMIN)).is_file()]
