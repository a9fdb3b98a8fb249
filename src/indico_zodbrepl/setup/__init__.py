"""Installation of both Python environments, the patched Indico and the commands.

``./bootstrap``, ``zodbrepl setup`` and the buildout recipe all call ``bootstrap.set_up``.
``bootstrap``, ``wanted``, ``material``, ``interpreters``, ``control_environment``, ``recipe`` and
the modules they import run before any package is installed: they import only the standard
library.  ``software`` and the rest run with the packages of ``.venv``.
"""
