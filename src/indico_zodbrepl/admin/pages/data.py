"""Statistics of the database, and benchmarks inside Indico."""

from __future__ import annotations

from flask import Blueprint

blueprint = Blueprint("data", __name__)
