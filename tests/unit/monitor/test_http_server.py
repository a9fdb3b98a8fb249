"""The server of the admin page and of the monitor answers without long pauses."""

from __future__ import annotations

import gc

from indico_zodbrepl.monitor import http_server


def test_what_is_loaded_when_a_page_is_served_is_not_looked_through_during_requests() -> None:
    gc.unfreeze()
    server = http_server.listen(lambda *_request: [], "127.0.0.1", 0)
    try:
        assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        server.close()
        gc.unfreeze()
