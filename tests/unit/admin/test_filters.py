"""How sentences begin, and times in texts."""

from __future__ import annotations

import pytest

from indico_zodbrepl.admin.filters import sentence, stamp, times


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


def test_a_time_in_a_text_is_an_element_and_the_rest_is_escaped() -> None:
    shown = times("from <a> (2026-11-20 11:02:52 UTC) on, 2026-13-20 11:02:52 UTC")
    element = '<time datetime="2026-11-20T11:02:52Z">2026-11-20 11:02:52 UTC</time>'
    assert f"from &lt;a&gt; ({element}) on, 2026-13-20 11:02:52 UTC" == shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T11:02:52Z", "2026-11-20T11:02:52Z"),
        ("2026-11-20T11:02:52.987654", "2026-11-20T11:02:52Z"),
        ("2026-11-20T12:02:52+01:00", "2026-11-20T11:02:52Z"),
    ],
)
def test_a_time_of_a_file_is_an_element(text: str, expected: str) -> None:
    assert f'<time datetime="{expected}">2026-11-20 11:02:52 UTC</time>' == stamp(text)


def test_what_is_no_time_is_shown_as_it_is() -> None:
    assert ["-", "", "<b>"] == [stamp(text) for text in ("-", "", "<b>")]
