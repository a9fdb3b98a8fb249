"""The buildout recipe refuses a part before buildout removes what is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.setup.recipe import Recipe


def made(folder: Path, **options: str) -> Recipe:
    """Make the recipe of a part, as buildout does for each part before it changes anything."""
    of_buildout = {
        "directory": str(folder),
        "bin-directory": str(folder / "bin"),
        "parts-directory": str(folder / "parts"),
    }
    return Recipe({"buildout": of_buildout}, "indico", {"recipe": "indico_zodbrepl", **options})


def refusal(capsys: pytest.CaptureFixture[str], folder: Path, **options: str) -> str:
    """Make a recipe that is refused; return the message."""
    with pytest.raises(SystemExit) as caught:
        made(folder, **options)
    assert ExitCode.BAD_CONFIG == caught.value.code
    return capsys.readouterr().err


def test_a_part_with_known_options_is_accepted_and_nothing_is_written(tmp_path: Path) -> None:
    made(tmp_path, python27="bin/python2.7", cluster="etc/made-by-another-part.conf")
    assert [] == list(tmp_path.iterdir())


def test_an_unknown_option_is_refused_with_the_known_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(capsys, tmp_path, clutser="etc/cluster.conf")
    assert "NOTICE: the part indico has an unknown option: clutser" in message
    assert "HINT: options are cluster, python27, indico-version, patches, eggs" in message


def test_a_version_of_indico_without_patches_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(capsys, tmp_path, **{"indico-version": "1.2.3"})
    assert "NOTICE: Indico 1.2.3 is not supported" in message


def test_a_package_without_its_hash_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(capsys, tmp_path, eggs="\npython-ldap==2.5.2")
    assert "DETAIL: option eggs of the part indico:1: python-ldap==2.5.2" in message
