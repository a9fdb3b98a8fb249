"""Exported tails: what is in them, and what of it is made again."""

from __future__ import annotations

from flask import Blueprint

blueprint = Blueprint("salvage", __name__)
