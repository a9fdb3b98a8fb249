"""Accounts for tests, and clients that are logged in without the work of a login."""

from __future__ import annotations

import time

from flask import session as of_request
from flask.testing import FlaskClient
from flask_wtf.csrf import generate_csrf
from werkzeug.security import generate_password_hash

from indico_zodbrepl.admin.access import accounts
from indico_zodbrepl.admin.access.accounts import Account, Accounts, Level, Token
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster

PASSWORD = "four words of chance"  # noqa: S105 - of accounts that exist for one test
_HASH = generate_password_hash(PASSWORD, "scrypt:1024:8:1")  # cheap, as each test logs in
OPERATOR, VIEWER = "alice", "victor"
OPERATOR_TOKEN, VIEWER_TOKEN = "token-of-the-deploy-program", "token-of-the-dashboard"
EVERYBODY = Accounts(
    {
        OPERATOR: Account(OPERATOR, Level.OPERATOR, _HASH),
        VIEWER: Account(VIEWER, Level.VIEWER, _HASH),
    },
    {
        "deploy": Token("deploy", Level.OPERATOR, accounts.digest_of(OPERATOR_TOKEN)),
        "dashboard": Token("dashboard", Level.VIEWER, accounts.digest_of(VIEWER_TOKEN)),
    },
)


def give_accounts(cluster: Cluster) -> None:
    """Everybody's accounts, for the page of a cluster."""
    accounts.write(Layout(cluster).accounts, EVERYBODY)


def log_in(client: FlaskClient, name: str = OPERATOR) -> FlaskClient:
    """Give a client the session of somebody; what it posts then carries a valid CSRF token."""
    person = EVERYBODY.users[name].person
    with client.session_transaction() as session:
        session["began"] = session["seen"] = int(time.time())
        session["_user_id"], session["_fresh"] = person.get_id(), True
    with client.application.test_request_context():
        token = generate_csrf()
        raw = of_request["csrf_token"]
    with client.session_transaction() as session:
        session["csrf_token"] = raw
    client.environ_base["HTTP_X_CSRFTOKEN"] = token
    return client


def stranger(client: FlaskClient) -> FlaskClient:
    """A client of the same page that is not logged in and has no CSRF token."""
    other = client.application.test_client()
    other.environ_base["HTTP_HOST"] = client.environ_base["HTTP_HOST"]
    return other


def cookie(client: FlaskClient) -> dict[str, str]:
    """The cookie of a client's session, for a browser; AssertionError when it has none."""
    name = client.application.config["SESSION_COOKIE_NAME"]
    found = client.get_cookie(name)
    assert found is not None
    return {"name": name, "value": found.value}
