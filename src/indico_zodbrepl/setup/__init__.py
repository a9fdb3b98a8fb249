"""Installation: ``./bootstrap`` and the buildout recipes for the two Python environments.

``bootstrap``, ``interpreters``, ``control_environment`` and the modules they import run before
any package is installed. They import only the standard library.
"""
