"""Source trees of Indico with the patches of the series up to any one applied."""
import os
import py_compile
import subprocess
import tarfile

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
        """Returns the path of the unpacked sdist, with its modules compiled."""
        if 0 not in self._made:
            with tarfile.open(SDIST) as sdist:
                sdist.extractall(self._folder)
            tree = os.path.join(self._folder, 'indico-1.2.2')
            os.symlink(os.path.join('indico', 'MaKaC'), os.path.join(tree, 'MaKaC'))
            self._share(os.path.join(tree, 'indico', 'htdocs'))
            compile_modules(tree)
            self._made[0] = tree
        return self._made[0]

    def _share(self, htdocs):
        for name in SHARED:
            place = os.path.join(self._folder, 'shared-' + os.path.basename(name))
            os.rename(os.path.join(htdocs, name), place)
            os.symlink(place, os.path.join(htdocs, name))

    def upto(self, count):
        """Returns the path of a tree with the first `count` patches of the series."""
        if count == 0:
            return self.pristine()
        if count not in self._made:
            name = series()[count - 1]
            tree = os.path.join(self._folder, 'upto-' + name.split('.')[0])
            subprocess.check_call(['cp', '-al', self.upto(count - 1), tree])
            status, output = apply_patch(tree, name)
            assert status == 0, output
            compile_modules(tree)
            self._made[count] = tree
        return self._made[count]

    def full(self):
        """Returns the path of a tree with the whole series."""
        return self.upto(len(series()))

    def without_and_with(self, name):
        """Returns a tree with all patches before `name`, and one that has it as well."""
        count = series().index(name + '.patch')
        return self.upto(count), self.upto(count + 1)
