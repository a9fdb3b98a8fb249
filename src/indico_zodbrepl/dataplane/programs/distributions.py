"""Versions of installed libraries, without pkg_resources.

Importing pkg_resources takes longer than importing ZODB, and most of a storage server's start
would be spent on it: ZEO and zdaemon import it to show version numbers.
"""
from __future__ import absolute_import

import contextlib
import os
import re
import sys
import types

_VERSION = r'%s-(?P<version>[^-]+)(-.*)?\.(dist-info|egg-info|egg)$'


def version_of(name):
    """Return the version of an installed distribution.

    Args:
        name: as in the names of its files, such as `zc.zrs`.

    Asks pkg_resources if it was imported already, or if the distribution was installed in an
    unusual manner.  Raises pkg_resources.DistributionNotFound.
    """
    if 'pkg_resources' not in sys.modules:
        found = _first(re.compile(_VERSION % re.escape(name)))
        if found is not None:
            return found
    import pkg_resources
    return pkg_resources.get_distribution(name).version


def _first(pattern):
    for folder in sys.path:
        names = [os.path.basename(folder)]
        if os.path.isdir(folder):
            names += sorted(os.listdir(folder))
        for each in names:
            match = pattern.match(each)
            if match:
                return match.group('version')
    return None


class _StandIn(types.ModuleType):
    """The parts of pkg_resources that ZEO.monitor and zdaemon.zdoptions use."""

    class Requirement(object):

        @staticmethod
        def parse(text):
            return text

    class working_set(object):

        @staticmethod
        def find(name):
            return None

    @staticmethod
    def get_distribution(name):
        distribution = types.ModuleType(name)
        distribution.version = version_of(name)
        return distribution


@contextlib.contextmanager
def without_pkg_resources():
    """Let modules that are imported meanwhile take a stand-in for pkg_resources.

    They need no more of it than version numbers.  Does nothing if it was imported already.
    Later imports find the real one.
    """
    if 'pkg_resources' in sys.modules:
        yield
        return
    sys.modules['pkg_resources'] = _StandIn('pkg_resources')
    try:
        yield
    finally:
        del sys.modules['pkg_resources']
