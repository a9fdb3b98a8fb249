"""Known values come from ``persistent.TimeStamp`` on Python 2.7."""

import pytest

from indico_zodbrepl.probing import tid


@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        (0x023C2B0000000000, 0.0),
        (0x0332B37FFFFEE861, 951868799.9990001),
        (0x03937552F1111111, 1325334896.5),
        (0x03F6D9E081111111, 1709164830.25),
        (0x040D243A1E64B6AA, 1795172767.123456),
        (0x03B4E1F2A3C4D5E6, 1454431838.3833332),
        (0x0400000000000001, 1744362240.0),
    ],
)
def test_the_time_in_a_tid_is_the_one_of_persistent_timestamp(number: int, seconds: float) -> None:
    assert seconds == pytest.approx(tid.committed_at(number), abs=1e-6)


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (tid.EMPTY, "an empty storage"),
        (((((124 * 12 + 1) * 31 + 30) * 24) * 60) << 32, "31 February 2024"),
        (((((123 * 12 + 1) * 31 + 28) * 24) * 60) << 32, "29 February 2023"),
    ],
)
def test_a_tid_that_is_no_point_in_time_has_none(number: int, why: str) -> None:
    assert tid.committed_at(number) is None, why


@pytest.mark.parametrize("text", ["", "0x", "12345678901234567", "-1", " 1", "1_0", "xyz", "0x0x1"])
def test_what_is_no_tid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a transaction id"):
        tid.parse(text)


def test_a_tid_is_read_with_and_without_prefix_and_written_with_it() -> None:
    assert 0x040D243A1E64B6AA == tid.parse("0x040d243a1e64b6aa") == tid.parse("040d243a1e64b6aa")
    assert "0x00000000000000ff" == tid.render(255)
