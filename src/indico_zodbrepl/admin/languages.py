"""The language of a page: the available one that the browser prefers."""

from __future__ import annotations

from pathlib import Path

from flask import Flask, has_request_context, request
from flask_babel import Babel, get_locale

from indico_zodbrepl.admin.api import exchange

FOLDER = Path(__file__).parent / "translations"
"""Has LANGUAGE/LC_MESSAGES/messages.mo for each language, and messages.pot with the texts."""
ENGLISH = "en"
"""The language of the texts in the code, and of all answers to programs."""


def install(app: Flask) -> None:
    """Set up the available languages of an application."""
    languages = [ENGLISH, *available(FOLDER)]

    def chosen() -> str:
        if not has_request_context() or exchange.is_for_programs(request.path):
            return ENGLISH
        return request.accept_languages.best_match(languages) or ENGLISH

    Babel(
        app,
        default_locale=ENGLISH,
        default_timezone="UTC",  # type: ignore[no-untyped-call]
        default_translation_directories=str(FOLDER),
        locale_selector=chosen,
    )
    app.jinja_env.globals.update(language=language)


def available(folder: Path) -> list[str]:
    """Return the codes of languages with a compiled catalogue, such as ``de`` and ``pt_BR``."""
    return sorted(path.parts[-3] for path in folder.glob("*/LC_MESSAGES/messages.mo"))


def language() -> str:
    """Return the language of the present request, as in HTML."""
    return str(get_locale() or ENGLISH).replace("_", "-")
