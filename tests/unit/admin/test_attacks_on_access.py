"""Requests that try to get past the login or the form's token."""

from __future__ import annotations

import json
from collections.abc import Callable

import logins
import pytest
from flask.testing import FlaskClient

from indico_zodbrepl.admin.app import create_app
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]


@pytest.mark.parametrize("token", ["nonsense", logins.VIEWER_TOKEN, logins.OPERATOR_TOKEN])
def test_a_session_needs_the_form_s_token_whatever_bearer_token_comes_with_it(
    make_client: MakeClient, token: str
) -> None:
    client = make_client()
    del client.environ_base["HTTP_X_CSRFTOKEN"]
    answer = client.post(
        "/api/operations/plan",
        json={"operation": "restart", "target": "b"},
        headers={"Authorization": f"Bearer {token}"},
    )
    assert 400 == answer.status_code
    assert "CSRF" in answer.text


@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_a_bearer_token_is_no_form_s_token(
    make_client: MakeClient, anonymous: ClientFor, path: str
) -> None:
    answer = anonymous(make_client()).post(
        path, headers={"Authorization": f"Bearer {logins.OPERATOR_TOKEN}"}
    )
    assert 400 == answer.status_code


@pytest.mark.parametrize(
    "stored",
    [
        "x$y$z",
        "scrypt:3:8:1$salt$00",
        "scrypt:a:b:c$salt$00",
        "scrypt$salt$00",
        "plain",
        "md5:1$salt$00",
    ],
)
def test_a_damaged_password_in_the_accounts_is_reported(
    make_client: MakeClient, anonymous: ClientFor, stored: str
) -> None:
    client = make_client()
    layout = Layout(client.application.extensions["zodbrepl"].cluster)
    values = json.loads(layout.accounts.read_text())
    values["users"]["alice"]["password"] = stored
    layout.accounts.write_text(json.dumps(values))
    client = anonymous(client)
    answer = client.get("/login")
    assert (503, True) == (answer.status_code, "damaged" in answer.text)


@pytest.mark.parametrize("content", ["", "[]", '{"a": "b"}', "[" * 20000])
def test_a_page_that_can_t_know_which_sessions_were_ended_does_not_start(
    make_client: MakeClient, content: str
) -> None:
    app = make_client().application
    cluster = app.extensions["zodbrepl"].cluster
    path = Layout(cluster).session_key.with_name("ended-sessions.json")
    path.write_text(content)
    with pytest.raises(OperatorError, match="which sessions have ended") as raised:
        create_app(cluster, app.extensions["zodbrepl"].watcher, app.extensions["zodbrepl"].home)
    assert f"rm {path} {Layout(cluster).session_key}" in raised.value.hint
