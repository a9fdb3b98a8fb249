"""Reading requirements files, which must pin everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.setup.pins import Pin, digest_of_pins, read_pins

A, B = "a" * 64, "b" * 64


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "requirements.txt"
    path.write_text(text)
    return path


def test_pins_with_their_hashes_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f"# why\nzc.zrs==3.1.0 \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\n\n"
        f"html5lib==0.9999999 --hash=sha256:{A}\n",
    )
    expected = (
        Pin("zc.zrs", "3.1.0", frozenset([A, B])),
        Pin("html5lib", "0.9999999", frozenset([A])),
    )
    assert expected == read_pins(path)
    assert ("zc-zrs", "3.1.0") == expected[0].key


@pytest.mark.parametrize(
    "line",
    [
        "ZEO==5.4.1",
        f"ZEO>=5.4.1 --hash=sha256:{A}",
        f"ZEO --hash=sha256:{A}",
        f"ZEO==5.* --hash=sha256:{A}",
        f"ZEO==5.4.1 --hash=sha256:{A[:-1]}",
        f"ZEO==5.4.1 --hash=md5:{A}",
        "--index-url https://example.org/simple",
        "-r other.txt",
    ],
)
def test_a_line_that_is_no_exact_pin_with_hashes_is_refused_by_its_number(
    tmp_path: Path, line: str
) -> None:
    path = written(tmp_path, f"# a comment\nsix==1.17.0 --hash=sha256:{A}\n{line}\n")
    with pytest.raises(OperatorError) as refusal:
        read_pins(path)
    assert refusal.value.detail.startswith(f"{path}:3: ")


def test_a_project_pinned_twice_is_refused_however_it_is_spelt(tmp_path: Path) -> None:
    text = f"zc.zrs==3.1.0 --hash=sha256:{A}\nzc_ZRS==3.0 --hash=sha256:{A}\n"
    with pytest.raises(OperatorError, match="pinned twice"):
        read_pins(written(tmp_path, text))


def test_the_digest_changes_with_a_version_and_with_a_hash_but_not_with_the_order() -> None:
    one, two = Pin("a", "1", frozenset([A, B])), Pin("b", "2", frozenset([A]))
    digest = digest_of_pins([one, two])
    assert digest == digest_of_pins([two, one])
    assert digest != digest_of_pins([one, Pin("b", "3", frozenset([A]))])
    assert digest != digest_of_pins([one, Pin("b", "2", frozenset([B]))])
