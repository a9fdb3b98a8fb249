"""Jobs told by what was typed and how it ended.  Pure."""

from __future__ import annotations

import shlex

from flask_babel import gettext as _

from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.failover.requests import Request

OPTIONS = {"--from": "source", "--days": "days"}
NOTICE = "NOTICE: "
CHANGED = "the situation has changed since the plan was shown"


def asked(command: str) -> Request | None:
    """The operation that a command line asks for; None when it is none, such as a salvage."""
    words = shlex.split(command)[1:]
    plain, options = [], {}
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            plain.append(word)
        elif words:
            value = words.pop(0)
            if word in OPTIONS:
                options[OPTIONS[word]] = value
    if not plain or len(plain) > 2:
        return None
    return Request(plain[0], plain[1] if len(plain) == 2 else None, "", options)


def state(job: Job) -> str:
    """How it stands, in words."""
    if job.ended is None:
        return _("at work")
    if job.exit_code is None:
        return _("ended, and nobody saw how")
    if job.exit_code == 0:
        return _("done")
    meaning = next((each.meaning for each in ExitCode if each == job.exit_code),
                   _("it was killed by a signal"))
    return _("ended with %(code)s: %(meaning)s", code=job.exit_code, meaning=meaning)


def has_changed(job: Job) -> bool:
    """Whether it did nothing because the plan was no longer the one that had been shown."""
    return (job.exit_code == ExitCode.REFUSED
            and any(CHANGED in line for line in job.output))


def notice(job: Job) -> str:
    """Why it was not done, in its own words; empty when it says nothing of the kind."""
    if not job.exit_code:
        return ""
    return next((line.removeprefix(NOTICE) for line in reversed(job.output)
                 if line.startswith(NOTICE)), "")
