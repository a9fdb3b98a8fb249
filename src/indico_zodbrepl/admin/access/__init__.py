"""Accounts, passwords, sessions and tokens of the admin page, and the checks of every request.

Commands import ``accounts`` and ``passwords``, which need no web framework.
"""
