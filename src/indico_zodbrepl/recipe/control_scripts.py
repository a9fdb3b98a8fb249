"""Recipe: the commands of the Python 3 side, in ``bin/``.

Options besides those of zc.recipe.egg:
  programs   names of programs in .venv/bin that are no Python entry points, to be linked
"""

from __future__ import annotations

from pathlib import Path

import zc.recipe.egg

from indico_zodbrepl.recipe import stamps
from indico_zodbrepl.recipe.reporting import failing_clearly
from indico_zodbrepl.recipe.scripts import starting_anywhere


class Recipe(zc.recipe.egg.Scripts):  # type: ignore[misc] # has no annotations
    """The buildout recipe ``indico_zodbrepl:scripts``: zc.recipe.egg's, starting from any path."""

    def install(self) -> list[str]:
        """Write the scripts; their paths."""
        with failing_clearly():
            made = list(super().install())
            for path in made:
                text = Path(path).read_text()
                stamps.write_atomically(Path(path), starting_anywhere(text), mode=0o755)
            of_buildout = self.buildout["buildout"]
            for name in self.options.get("programs", "").split():
                link = Path(of_buildout["bin-directory"]) / name
                link.unlink(missing_ok=True)
                link.symlink_to(Path("../.venv/bin") / name)
                made.append(str(link))
        return made

    update = install
