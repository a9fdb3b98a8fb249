"""One clear message for each way in which a program that the set-up runs can fail."""

from __future__ import annotations

import pytest

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.setup.processes import clean_environment, explain, run

REFUSED = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'
ERROR: Could not find a version that satisfies the requirement ZEO==5.4.1
ERROR: No matching distribution found for ZEO==5.4.1
"""
ALTERED = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
    ZEO==5.4.1:
        Expected sha256 aaaa
             Got        bbbb
"""


@pytest.mark.parametrize(
    ("output", "notice"),
    [
        (REFUSED, "the package index did not deliver a required package"),
        (ALTERED, "a file from the package index does not match its pin"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        (
            "src/_speedups.c:1:10: fatal error: Python.h: No such file or directory",
            "the C headers of Python 2.7 are missing",
        ),
        ("unable to execute 'gcc': No such file or directory", "a C compiler is missing"),
    ],
)
def test_what_a_failure_means_is_said(output: str, notice: str) -> None:
    error = explain("do it", output)
    assert f"could not do it: {notice}" == error.notice
    assert error.hint


def test_the_detail_holds_what_tells_and_not_the_warnings() -> None:
    expected = [
        "ERROR: Could not find a version that satisfies the requirement ZEO==5.4.1",
        "ERROR: No matching distribution found for ZEO==5.4.1",
    ]
    assert expected == explain("do it", REFUSED).detail.splitlines()


def test_an_unknown_failure_shows_the_end_of_the_output() -> None:
    error = explain("do it", "\n".join(f"line {number}" for number in range(100)))
    assert "could not do it" == error.notice
    assert [f"line {number}" for number in range(75, 100)] == error.detail.splitlines()


def test_a_program_that_ends_with_an_error_raises_what_it_wrote() -> None:
    with pytest.raises(OperatorError) as failure:
        run(["sh", "-c", "echo out; echo err >&2; exit 4"], "try")
    assert ("could not try", "out\nerr") == (failure.value.notice, failure.value.detail)


def test_settings_that_lead_pip_and_python_astray_do_not_reach_programs() -> None:
    environ = {"PYTHONPATH": "x", "PIP_TARGET": "x", "PIP_INDEX_URL": "kept", "HOME": "kept"}
    assert {"PIP_INDEX_URL": "kept", "HOME": "kept"} == clean_environment(environ)
