"""The series applies to the released sdist, and every patch says why it is there."""
import os
import shutil

import pytest

from trees import SERIES, apply_patch, series


def test_the_series_names_every_patch_once():
    patches = sorted(name for name in os.listdir(SERIES) if name.endswith('.patch'))
    assert patches == sorted(series())
    assert len(series()) == len(set(series()))


@pytest.mark.parametrize('name', series())
def test_a_patch_begins_with_its_reason_in_words(name):
    with open(os.path.join(SERIES, name)) as content:
        header = content.read().split('\n--- ', 1)[0]
    assert len(header.split()) >= 20
    assert max(len(line) for line in header.splitlines()) <= 100


def test_the_series_applies_without_fuzz_and_leaves_nothing_behind(trees):
    tree = trees.full()
    left = [name for _, _, names in os.walk(tree) for name in names if name.endswith(('.orig', '.rej'))]
    assert [] == left


def test_a_dry_run_finds_that_a_patch_fits_and_changes_nothing(trees, tmpdir):
    status, output = apply_patch(trees.pristine(), series()[0], '--dry-run')
    assert status == 0, output
    assert 'checking file' in output
    with open(os.path.join(trees.pristine(), 'requirements.txt')) as content:
        assert 'pyatom' in content.read()


def test_a_patch_is_refused_where_it_was_applied_already(trees, tmpdir):
    tree = str(tmpdir.join('again'))
    os.mkdir(tree)
    for name in ('requirements.txt', 'indico.egg-info'):
        source = os.path.join(trees.full(), name)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, os.path.join(tree, name))
    status, _ = apply_patch(tree, series()[0], '--dry-run')
    assert status != 0


def test_the_patches_know_nothing_of_this_project():
    for name in series():
        with open(os.path.join(SERIES, name)) as content:
            assert 'indico_zodbrepl' not in content.read()
