"""Buildout recipe for the Python 3 commands in ``bin/``.

Options besides those of zc.recipe.egg:
  programs   programs in .venv/bin without a Python entry point; they are symlinked
"""

from __future__ import annotations

from pathlib import Path

import zc.recipe.egg

from indico_zodbrepl.setup import stamps
from indico_zodbrepl.setup.processes import failing_clearly
from indico_zodbrepl.setup.scripts import starting_anywhere


class Recipe(zc.recipe.egg.Scripts):  # type: ignore[misc] # has no annotations
    """Recipe ``indico_zodbrepl:scripts``: zc.recipe.egg with scripts that work from any path."""

    def install(self) -> list[str]:
        """Write the scripts and return their paths."""
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
