"""Operations that are prepared, confirmed, begun and followed here."""

from __future__ import annotations

from flask import Blueprint

blueprint = Blueprint("operations", __name__)
