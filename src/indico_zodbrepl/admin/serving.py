"""Serves the admin page over HTTP, directly or behind a reverse proxy."""

from __future__ import annotations

from typing import Any

import waitress
from flask import Flask

from indico_zodbrepl.cluster.model import Admin

THREADS = 8
MOST_BYTES = 256 * 1024
"""Of a request's body; waitress keeps it on disk before the page sees anything of it."""


def listen(page: Flask, admin: Admin) -> Any:
    """A waitress server that listens, and serves when its ``run`` is called.

    Paths are below that of the public URL; without it they are found too, as by a tunnel.
    X-Forwarded-For and X-Forwarded-Proto count if they come from the trusted proxy; all others,
    and those of anybody else, are dropped.  Raises OSError when the address can't be bound.
    """
    trusted: dict[str, Any] = {} if admin.trusted_proxy is None else {
        "trusted_proxy": admin.trusted_proxy, "trusted_proxy_count": 1,
        "trusted_proxy_headers": {"x-forwarded-for", "x-forwarded-proto"}}
    return waitress.create_server(page, host=admin.host, port=admin.port, threads=THREADS,
                                  url_prefix=admin.path_prefix, ident=None,
                                  max_request_body_size=MOST_BYTES,
                                  clear_untrusted_proxy_headers=True, **trusted)
