"""Every operation that there was."""

from __future__ import annotations

from flask import Blueprint

blueprint = Blueprint("journal", __name__)
