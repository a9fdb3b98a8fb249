"""No input to any endpoint gives a 500, and programs are answered as the description says.

What is asked is made up by schemathesis and hypothesis, the same at each run.  The cluster's
servers are on ports where nothing listens, and the command that a page starts is a stub.
"""

from __future__ import annotations

import dataclasses
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import logins
import past
import pytest
import schemathesis
import situations
import stub_command
from flask.testing import FlaskClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from werkzeug.datastructures import Headers

from indico_zodbrepl.admin.app import create_app
from indico_zodbrepl.cluster.model import Cluster, Node, Role
from indico_zodbrepl.monitor.watcher import Watcher
from indico_zodbrepl.operations import journal, store
from indico_zodbrepl.operations.operation import Operation, Outcome

BOUNDED = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
API_EXAMPLES = 8
"""Of each method of a path, with what fits the description, and again with what doesn't."""
PAGE_EXAMPLES = {"nobody": 50, logins.VIEWER: 120, logins.OPERATOR: 120}
"""Of all pages together, by whoever asks, with and without an open operation."""
SOME, ALL = 4, 1
"""By which the numbers of examples are divided."""
PART = pytest.mark.parametrize(
    "part",
    [pytest.param(SOME, id="some"), pytest.param(ALL, marks=pytest.mark.exhaustive, id="all")],
)
load_all_checks()
DESCRIBED = CHECKS.get_by_names(
    [
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    ]
)


def closed_cluster(folder: Path) -> Cluster:
    """A cluster none of whose servers runs, with accounts."""
    nodes = (
        Node("a", "127.0.0.1", 1, 2, folder / "a", Role.PRIMARY),
        Node("b", "127.0.0.1", 3, 4, folder / "b", Role.SECONDARY, "a"),
    )
    made = situations.cluster(
        nodes=nodes,
        indico=tuple(
            dataclasses.replace(each, port=5 + number)
            for number, each in enumerate(situations.cluster().indico)
        ),
        var_directory=folder / "var",
        source=folder / "cluster.conf",
    )
    made.var_directory.mkdir()
    logins.give_accounts(made)
    return made


class Pages:
    """The pages of a cluster whose journal holds operations, one of them open."""

    def __init__(self, folder: Path) -> None:
        self.stub = stub_command.Stub(folder)
        self.cluster = closed_cluster(folder)
        ended = past.failover(past.tail(self.cluster), 1)
        self.open: Operation = dataclasses.replace(
            past.failover(folder, 2), outcome=Outcome.STOPPED, ended=None, pid=0
        )
        past.keep(self.cluster, past.packing(0), ended, self.open)
        self.known = [
            "a",
            "b",
            "c",
            "one",
            "failover",
            "rejoin",
            "restart",
            "pack",
            "resume",
            past.TAIL,
            ended.identifier,
            self.open.identifier,
            ended.identifier[:8],
        ]
        self.watcher = Watcher(lambda: situations.snapshot(self.cluster))
        self.watcher.start()
        self.app = create_app(self.cluster, self.watcher, self.stub.home)
        self.app.config["PROPAGATE_EXCEPTIONS"] = True
        assert self.watcher.latest(60.0) is not None

    @property
    def is_open(self) -> bool:
        return store.unfinished(self.cluster) is not None

    def leave_open(self) -> None:
        """Make the open operation the one that has not ended."""
        store.save(self.cluster, self.open)

    def close(self) -> None:
        store.forget(self.cluster, self.open)
        journal.append(
            self.cluster,
            dataclasses.replace(self.open, outcome=Outcome.ABANDONED, ended=self.open.began + 60),
        )


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    made = Pages(tmp_path_factory.mktemp("pages"))
    yield made
    made.watcher.end()


@pytest.fixture(params=["something is open", "nothing is open"])
def pages_as_they_are(pages: Pages, request: pytest.FixtureRequest) -> Pages:
    """With and without an operation that has to be ended first."""
    if request.param == "something is open":
        pages.leave_open()
    else:
        pages.close()
    return pages


def answered(answer: Any) -> None:
    assert answer.status_code != 500


@PART
@pytest.mark.parametrize("token", ["", logins.OPERATOR_TOKEN], ids=["nobody", "operator"])
def test_programs_are_answered_as_described_whatever_they_send(
    pages_as_they_are: Pages, token: str, part: int
) -> None:
    pages = pages_as_they_are
    bearer = {"Authorization": f"Bearer {logins.OPERATOR_TOKEN}"}
    described = schemathesis.openapi.from_wsgi("/api/openapi.json", pages.app, headers=bearer)
    sent = {"Authorization": f"Bearer {token}"} if token else {}
    asked = set()
    for found in described.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]  # the description is a good one
        fixed = [{"id": pages.open.identifier}] if "{id}" in operation.path else []
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if mode is GenerationMode.NEGATIVE and not _can_be_wrong(operation):
                continue
            cases = st.one_of(
                operation.as_strategy(mode),
                *(operation.as_strategy(mode, path_parameters=each) for each in fixed),
            )

            @settings(BOUNDED, max_examples=API_EXAMPLES // part)
            @given(cases)
            def attempt(case: Any) -> None:
                case.headers.pop("Authorization", None)
                case.cookies = {}
                answer = case.call(headers=sent)
                answered(answer)
                case.validate_response(answer, checks=DESCRIBED)
                asked.add((case.path, case.method, answer.status_code))

            attempt()
    codes = {code for _path, _method, code in asked}
    assert ({200, 404, 422} if token else {200, 401}) <= codes
    assert not token or (409 if pages.is_open else 202) in codes
    assert all(arguments[0] == "-c" for _actor, arguments in pages.stub.calls)


def _can_be_wrong(operation: Any) -> bool:
    """Whether there is anything to send that does not fit."""
    return bool(operation.body or operation.query or operation.path_parameters)


FIELDS = [
    "confirm",
    "digest",
    "survey",
    "reason",
    "name",
    "password",
    "next",
    "csrf_token",
    "days",
    "source",
    "node",
    "how",
    "page",
    "kind",
    "outcome",
    "actor",
    "since",
    "until",
    "text",
    "limit",
    "before",
    "lag",
    "over",
    "operation",
    "target",
    "options",
    "expected",
    "id",
]
HEADERS = [
    "Accept",
    "Accept-Language",
    "Accept-Encoding",
    "Content-Type",
    "If-None-Match",
    "If-Modified-Since",
    "Range",
    "Referer",
    "Origin",
    "X-Forwarded-For",
    "Forwarded",
    "X-Forwarded-Proto",
    "X-Forwarded-Host",
    "X-Refresh",
    "X-CSRFToken",
    "Authorization",
    "Cookie",
    "Transfer-Encoding",
    "User-Agent",
    "X-HTTP-Method-Override",
]
ODD = [
    "",
    " ",
    "-1",
    "0",
    "1e999",
    "nan",
    "..",
    "../../etc/passwd",
    "--force",
    "<script>",
    "\0",
    "\ud800",
    "\u202e",
    "\u0663",
    "x" * 5000,
    "2026-11-21",
    "9999-99-99",
    "%00",
    "%ff",
    "'\"",
    "{}",
    "[]",
    "null",
    "bytes=0-",
    "Bearer x",
    "Basic Og==",
    "text/html;q=x",
    "de, *;q=9",
]
ANY_METHOD = st.sampled_from(["GET", "GET", "POST", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"])


def texts(pages: Pages) -> st.SearchStrategy[str]:
    return st.one_of(st.sampled_from(pages.known + ODD), st.text(max_size=30))


def paths(pages: Pages) -> st.SearchStrategy[str]:
    """Every rule of the page, with whatever can stand in a path; and paths that have none."""

    def of(rule: str) -> st.SearchStrategy[str]:
        parts = [
            st.just(part) if not part.startswith("<") else texts(pages).map(_quoted)
            for part in rule.split("/")
        ]
        return st.tuples(*parts).map("/".join)

    rules = sorted({rule.rule for rule in pages.app.url_map.iter_rules()})
    return st.one_of(*map(of, rules), texts(pages).map(lambda text: f"/{_quoted(text)}"))


def _quoted(text: str) -> str:
    return urllib.parse.quote(text.encode("utf-8", "surrogatepass"), safe="")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@st.composite
def requests(draw: st.DrawFn, pages: Pages) -> dict[str, Any]:
    """What ``FlaskClient.open`` takes."""
    some = st.dictionaries(
        st.one_of(st.sampled_from(FIELDS), st.text(max_size=10)), texts(pages), max_size=5
    )
    form = some.map(
        lambda fields: (
            urllib.parse.urlencode(
                {_bytes(name): _bytes(value) for name, value in fields.items()}
            ).encode(),
            "application/x-www-form-urlencoded",
        )
    )
    other = st.tuples(
        st.one_of(st.binary(max_size=200), some.map(lambda fields: json.dumps(fields).encode())),
        st.sampled_from(
            [
                "application/json",
                "multipart/form-data; boundary=x",
                "text/plain",
                "a",
                "multipart/form-data",
                "application/x-www-form-urlencoded",
                "",
            ]
        ),
    )
    data, kind = draw(st.one_of(form, form, other))
    headers = Headers()
    for name, value in draw(
        st.dictionaries(st.sampled_from(HEADERS), texts(pages), max_size=3)
    ).items():
        headers[name] = (
            "".join(c for c in value if c.isprintable())
            .encode("utf-8", "replace")
            .decode("latin-1")
        )
    query = draw(
        st.one_of(
            some.map(
                lambda fields: urllib.parse.urlencode(
                    {_bytes(name): _bytes(value) for name, value in fields.items()}
                )
            ),
            st.binary(max_size=20).map(lambda raw: raw.decode("latin-1")),
        )
    )
    headers.setdefault("Content-Type", kind)
    return {
        "path": draw(paths(pages)),
        "method": draw(ANY_METHOD),
        "data": data,
        "query_string": _visible(query),
        "headers": headers,
    }


def _visible(text: str) -> str:
    return "".join(c for c in text if 33 <= ord(c) < 256)


def client_of(pages: Pages, who: str) -> FlaskClient:
    """A client that stays logged in as somebody, whatever it is answered."""
    own = pages.app.test_client()
    own.environ_base["HTTP_HOST"] = "127.0.0.1:8100"
    client = pages.app.test_client(use_cookies=False)
    if who != "nobody":
        found = logins.cookie(logins.log_in(own, who))
        client.environ_base["HTTP_COOKIE"] = f"{found['name']}={found['value']}"
    client.environ_base |= own.environ_base
    return client


@PART
@pytest.mark.parametrize("who", PAGE_EXAMPLES)
def test_no_request_to_any_page_gives_a_500(pages_as_they_are: Pages, who: str, part: int) -> None:
    pages = pages_as_they_are
    client = client_of(pages, who)
    codes = set()

    @settings(BOUNDED, max_examples=PAGE_EXAMPLES[who] // part)
    @given(requests(pages))
    def attempt(asked: dict[str, Any]) -> None:
        answer = client.open(**asked)
        answered(answer)
        answer.get_data()
        answer.close()
        codes.add(answer.status_code)

    attempt()
    assert ({401, 303} if who == "nobody" else {200, 404, 405}) <= codes
    assert part == SOME or who != logins.VIEWER or 403 in codes


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_page_gives_a_500_for_any_odd_value_in_its_path_or_all_its_fields(
    pages: Pages, method: str
) -> None:
    """Each path that there is with each value: what chance would seldom put together."""
    client = client_of(pages, logins.OPERATOR)
    rules = sorted(
        {rule.rule for rule in pages.app.url_map.iter_rules() if method in (rule.methods or ())}
    )
    asked = 0
    for rule in rules:
        for value in pages.known + ODD:
            path = "/".join(
                _quoted(value) if part.startswith("<") else part for part in rule.split("/")
            )
            fields = urllib.parse.urlencode(dict.fromkeys(FIELDS, _bytes(value)))
            sent: dict[str, Any] = (
                {"query_string": fields}
                if method == "GET"
                else {"data": fields, "content_type": "application/x-www-form-urlencoded"}
            )
            answer = client.open(path, method=method, **sent)
            answered(answer)
            answer.close()
            asked += 1
    assert asked == len(rules) * len(pages.known + ODD) > 100
    assert 200 == client.get("/journal").status_code, "still logged in"
