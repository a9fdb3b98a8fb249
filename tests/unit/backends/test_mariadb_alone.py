"""What one server's log has that another one's lacks."""

from __future__ import annotations

import pytest

from indico_zodbrepl.backends.mariadb.comparing import lacks


@pytest.mark.parametrize(
    ("position", "log", "missing"),
    [
        ("0-1-100", "0-1-100", ""),
        ("0-1-100", "0-1-100,0-2-140", ""),
        ("0-1-105", "0-1-100,0-2-140", "0-1-105"),
        ("0-2-7", "0-1-100", "0-2-7"),
        ("0-1-5,1-1-9", "0-1-6,1-1-8", "1-1-9"),
        ("", "0-1-100", ""),
        ("0-1-100", "0-1-100,0-1-40", ""),
        ("0-1-100", ",0-1-100", ""),
    ],
)
def test_a_position_is_compared_with_what_came_from_the_same_server(
    position: str, log: str, missing: str
) -> None:
    assert missing == lacks(position, log)
