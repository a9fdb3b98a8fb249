"""In which language the page is shown: the one that the browser likes best of those there are."""

from __future__ import annotations

from pathlib import Path

from flask import Flask, has_request_context, request
from flask_babel import Babel, get_locale

from indico_zodbrepl.admin.api import problems

FOLDER = Path(__file__).parent / "translations"
"""A folder for each language: LANGUAGE/LC_MESSAGES/messages.mo; messages.pot has the texts."""
ENGLISH = "en"
"""What the texts are written in, and what programs are answered in."""


def install(app: Flask) -> None:
    """Have an application show the languages that there are when it is made."""
    languages = [ENGLISH, *available(FOLDER)]

    def chosen() -> str:
        if not has_request_context() or problems.is_for_programs(request.path):
            return ENGLISH
        return request.accept_languages.best_match(languages) or ENGLISH

    Babel(app, default_locale=ENGLISH, default_timezone="UTC",  # type: ignore[no-untyped-call]
          default_translation_directories=str(FOLDER), locale_selector=chosen)
    app.jinja_env.globals.update(language=language)


def available(folder: Path) -> list[str]:
    """Codes of the languages with a compiled catalogue, such as ``de`` and ``pt_BR``."""
    return sorted(path.parts[-3] for path in folder.glob("*/LC_MESSAGES/messages.mo"))


def language() -> str:
    """The language of the present request, as HTML writes it."""
    return str(get_locale() or ENGLISH).replace("_", "-")
