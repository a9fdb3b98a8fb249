"""Source trees of Indico with the patches of the series up to any one applied."""
import os
import py_compile
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HOME = os.environ.get('ZODBREPL_HOME', ROOT)
SERIES = os.path.join(ROOT, 'patches', 'indico-1.2.2')
SDIST = os.environ.get('INDICO_SDIST') or os.path.join(HOME, 'downloads', 'indico-1.2.2.tar.gz')

# Folders of htdocs in which no patch changes anything, with half of all files: one copy serves all trees.
SHARED = ('ihelp', 'images', 'js/ckeditor', 'js/lib')


def series():
    """Returns the names of the patches, in their order."""
    with open(os.path.join(SERIES, 'series')) as lines:
        return lines.read().split()


def apply_patch(tree, name, *options):
    """Applies one patch to a tree as the set-up does; returns exit status and output."""
    with open(os.path.join(SERIES, name)) as content:
        patch = subprocess.Popen(
            ['patch', '-p1', '--batch', '--forward', '--fuzz=0'] + list(options), cwd=tree,
            stdin=content, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = patch.communicate()[0]
    return patch.returncode, output


def since(patch):
    """Run a test with the fixture `tree` of the whole series; exhaustively also with no patch after this one."""
    alone = pytest.param(patch, marks=pytest.mark.exhaustive)
    return pytest.mark.parametrize('tree', ['whole series', alone], indirect=True)


def compile_modules(tree):
    """Compiles the modules of a tree that have no other tree's compiled file, or a changed source.

    Otherwise each process that a test starts compiles them for itself.
    """
    for path, _, names in os.walk(os.path.join(tree, 'indico')):
        for name in names:
            source = os.path.join(path, name)
            # patch writes a new file, and leaves alone the one that the trees have in common
            if name.endswith('.py') and os.stat(source).st_nlink == 1:
                if os.path.exists(source + 'c'):
                    os.remove(source + 'c')
                py_compile.compile(source)


class Trees(object):
    """Makes trees on demand below a folder; each is made once, of hard links.

    Trees are only read: what a tree shares with others must not be changed in place.
    """

    def __init__(self, folder):
        self._folder = folder
        self._made = {}

    def pristine(self):
        """Return the path of the unpacked sdist, with its modules compiled."""
        return self._with(0)

    def full(self):
        """Return the path of a tree with the whole series."""
        return self._with(len(series()))

    def before(self, patch):
        """Return the path of a tree with all patches before this one."""
        return self._with(series().index(patch + '.patch'))

    def through(self, patch):
        """Return the path of a tree with this patch and all before it."""
        return self._with(series().index(patch + '.patch') + 1)

    def _with(self, count):
        """Return the path of a tree with the first `count` patches, made from the nearest one before it."""
        if 0 not in self._made:
            self._made[0] = self._unpack()
        if count not in self._made:
            nearest = max(made for made in self._made if made < count)
            tree = os.path.join(self._folder, 'with-%d' % count)
            subprocess.check_call(['cp', '-al', self._made[nearest], tree])
            for name in series()[nearest:count]:
                status, output = apply_patch(tree, name)
                assert status == 0, output
            compile_modules(tree)
            self._made[count] = tree
        return self._made[count]

    def _unpack(self):
        subprocess.check_call(['tar', '-xzf', SDIST, '-C', self._folder])
        tree = os.path.join(self._folder, 'indico-1.2.2')
        os.symlink(os.path.join('indico', 'MaKaC'), os.path.join(tree, 'MaKaC'))
        self._share(os.path.join(tree, 'indico', 'htdocs'))
        compile_modules(tree)
        return tree

    def _share(self, htdocs):
        for name in SHARED:
            place = os.path.join(self._folder, 'shared-' + os.path.basename(name))
            os.rename(os.path.join(htdocs, name), place)
            os.symlink(place, os.path.join(htdocs, name))
