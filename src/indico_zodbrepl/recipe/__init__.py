"""The set-up: ``./bootstrap`` and the buildout recipes that fill both interpreters' environments.

``bootstrap``, ``interpreters``, ``control_environment`` and what they use run before anything is
installed: they import the standard library alone.
"""
