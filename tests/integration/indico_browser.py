"""A person at an Indico: a session with cookies that follows forms as a browser does."""

from __future__ import annotations

import json
from typing import IO, Any
from urllib.parse import urljoin

import requests
from bs4 import BeautifulSoup, Tag

TIME_LIMIT = 180  # seconds a page may take; the machine may be busy


class FormNotShown(requests.HTTPError):
    """Indico did not show a form; ``answer`` is what it answered."""

    def __init__(self, answer: requests.Response) -> None:
        super().__init__(f"{answer.status_code} for {answer.url}", response=answer)
        self.answer = answer


class IndicoBrowser:
    """One HTTP session with the Indico at ``base_url`` (``http://host:port/indico``)."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.session = requests.Session()
        # A kept connection may be closed by the server just when a request is sent on it.
        self.session.headers["Connection"] = "close"
        self._token: str | None = None

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.base_url + path, timeout=TIME_LIMIT)

    def log_in(self, login: str, password: str) -> None:
        """Log in by the login form; an AssertionError when Indico refuses."""
        answer = self.session.post(
            f"{self.base_url}/user/login",
            data={"login": login, "password": password},
            allow_redirects=False,
            timeout=TIME_LIMIT,
        )
        assert answer.status_code in (302, 303), f"login answered {answer.status_code}"
        self._token = None

    def call(self, method: str, **parameters: Any) -> requests.Response:
        """Call a method of JSON-RPC, as the scripts of Indico's pages do."""
        if self._token is None:
            page = self.get("/")
            page.raise_for_status()
            soup = BeautifulSoup(page.text, "html.parser")
            token = soup.find("meta", attrs={"name": "csrf-token"})
            assert isinstance(token, Tag), "no CSRF token on the page"
            self._token = str(token["content"])
        return self.session.post(
            f"{self.base_url}/services/json-rpc",
            json={"version": "1.1", "method": method, "params": parameters},
            headers={"X-CSRF-Token": self._token},
            timeout=TIME_LIMIT,
        )

    def past_events(self, category_id: str) -> str:
        """HTML of a category's latest 100 past events, as its page asks for them by JSON-RPC."""
        answer = self.call("category.getPastEventsList", categId=category_id, lastIdx=100)
        answer.raise_for_status()
        months = answer.json()["result"]["events"]
        return " ".join(event for month in months for event in month["events"])

    def create_conference(self, category_id: str, title: str) -> requests.Response:
        """Open the form for a new conference, fill in the title, send it; the answer unfollowed.

        Raises:
            FormNotShown: the form itself was answered otherwise than with 200.
        """
        page = self.get(f"/category/{category_id}/create/event/conference")
        if page.status_code != requests.codes.ok:
            raise FormNotShown(page)
        form = BeautifulSoup(page.text, "html.parser").find("form", id="conferenceCreationForm")
        assert isinstance(form, Tag), "no form for a new conference on the page"
        fields = form_fields(form)
        fields |= {"title": title, "chairperson": "[]", "allowedUsers": "[]"}  # as its script does
        return self.session.post(
            urljoin(page.url, str(form["action"])),
            data=fields,
            allow_redirects=False,
            timeout=TIME_LIMIT,
        )

    def upload(self, event: str, name: str, content: bytes | IO[bytes]) -> str:
        """Attach a file to an event's slides, as the upload dialog does; return its path.

        Raises:
            requests.HTTPError: it was answered otherwise than with 200.
        """
        answer = self.session.post(
            f"{self.base_url}/event/{event}/manage/material/add",
            data={
                "uploadType": "file",
                "materialId": "slides",
                "statusSelection": "1",
                "userList": "[]",
            },
            files={"file": (name, content)},
            timeout=TIME_LIMIT,
        )
        answer.raise_for_status()
        dialog = BeautifulSoup(answer.text, "html.parser").find("textarea")
        assert isinstance(dialog, Tag), answer.text
        told = json.loads(dialog.text)
        assert told["status"] == "OK", told
        return str(told["info"][0]["url"]).removeprefix(self.base_url)


def form_fields(form: Tag) -> dict[str, str]:
    """What a browser would send for this form, untouched and sent by its button."""
    fields: dict[str, str] = {}
    for field in form.find_all(["input", "textarea", "select"]):
        name = str(field.get("name", ""))
        kind = field.get("type")
        if not name or (kind in ("checkbox", "radio") and not field.has_attr("checked")):
            continue
        if field.name == "textarea":
            fields[name] = field.text
        elif field.name == "select":
            chosen = field.find("option", selected=True) or field.find("option")
            fields[name] = str(chosen.get("value", chosen.text)) if chosen else ""
        else:
            fields[name] = str(field.get("value", ""))
    return fields
