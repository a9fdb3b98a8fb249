"""Find protected values in records: access and modification keys, passwords, tokens and so on.

They are found by the names that Indico 1.2.2 and its plugins give to attributes, and by their form:
its API and OAuth keys are UUIDs, also as keys of indexes; passwords of accounts are bcrypt hashes.
A name that only resembles one of these is taken for protected too.
"""
from __future__ import absolute_import

import re

NAME = re.compile(
    r'pass(word|wd|phrase)|pwd|secret|token|captcha|hash|salt|seed|uuid|credential|_?randomid$|'
    r'pins?$|^_?key$|(access|modif|modification|api|sign|auth|private|shared|old|session)_?keys?$|'
    r'lastquery$|pluginoption__value$', re.IGNORECASE)
FORM = re.compile(
    r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\$2[abxy]?\$[0-9]{2}\$',
    re.IGNORECASE)
DEPTH_LIMIT = 20


def is_protected(name, *values):
    """Return True if a field of that name, or something within one of its values, is protected.

    Args:
        name: of an attribute, or a key of a collection.
        values: parts of the states of records, as `records.state_of` returns them.
    """
    return _is_name(name) or any(_is_within(value, 0) for value in values)


def _is_name(name):
    return isinstance(name, basestring) and bool(NAME.search(name) or FORM.search(name))


def _is_within(value, depth):
    if depth > DEPTH_LIMIT:
        return True
    if isinstance(value, basestring):
        return FORM.search(value) is not None
    if isinstance(value, dict):
        return any(_is_name(key) or _is_within(each, depth + 1) for key, each in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_is_within(each, depth + 1) for each in value)
    # an instance of a class that a pickle names
    parts = [getattr(value, part, None) for part in ('args', 'state')]
    return any(_is_within(part, depth + 1) for part in parts if part is not None)
