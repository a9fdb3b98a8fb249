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


def is_protected(name, *values):
    """Return True if a field of that name, or something within one of its values, is protected.

    Args:
        name: of an attribute, or a key of a collection.
        values: parts of the states of records, as `records.state_of` returns them.
    """
    if _is_name(name):
        return True
    seen, todo = set(), list(values)
    while todo:
        value = todo.pop()
        if isinstance(value, basestring):
            if FORM.search(value):
                return True
        elif id(value) not in seen:  # a state may refer to a part of it many times
            seen.add(id(value))
            if isinstance(value, dict):
                if any(map(_is_name, value)):
                    return True
                todo += value.values()
            elif isinstance(value, (list, tuple, set, frozenset)):
                todo += value
            else:  # perhaps a stand-in for an instance of a class that the pickle names
                todo += [getattr(value, part, None) for part in ('args', 'state')]
    return False


def _is_name(name):
    return isinstance(name, basestring) and bool(NAME.search(name) or FORM.search(name))
