"""How sentences begin."""

from __future__ import annotations

import pytest

from indico_zodbrepl.admin.filters import sentence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing listens on b", "Nothing listens on b"),
        ("failover to b", "Failover to b"),
        ("it's at work", "It's at work"),
        ("master: none", "Master: none"),
        ("", ""),
        ("bin/zodbrepl up", "bin/zodbrepl up"),
        ("db1 took over", "db1 took over"),
        ("alice@example.org began it", "alice@example.org began it"),
        ("`up` writes it", "`up` writes it"),
        ("storage_a is full", "storage_a is full"),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_it_begins_with_a_name_or_a_command(
    text: str, expected: str
) -> None:
    assert expected == sentence(text)
