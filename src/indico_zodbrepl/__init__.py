"""Indico 1.2.2 on replicated ZODB storages.

This one distribution runs on two interpreters.  ``RUNS_ON`` is the one place
that says which sub-package (or top-level module) is for which; the tests
compile every file with each interpreter it is for and check who imports whom.
"""

PYTHON27 = '2.7'
PYTHON3 = '3.11'

RUNS_ON = {
    '__init__': (PYTHON27, PYTHON3),
    'dataplane': (PYTHON27,),
    'errors': (PYTHON3,),
    'cluster': (PYTHON3,),
    'probing': (PYTHON3,),
    'backends': (PYTHON3,),
    'node': (PYTHON3,),
    'monitor': (PYTHON3,),
    'failover': (PYTHON3,),
    'convert': (PYTHON3,),
    'watch': (PYTHON3,),
    'bench': (PYTHON3,),
    'admin': (PYTHON3,),
    'demo': (PYTHON3,),
    'cli': (PYTHON3,),
    'recipe': (PYTHON3,),
}

# Arrows point down only: a package may import what is to the right of it.
MAY_IMPORT = {
    'dataplane': (),
    'errors': (),
    'cluster': ('errors',),
    'probing': ('cluster', 'errors'),
    'backends': ('probing', 'cluster', 'errors'),
    'node': ('backends', 'probing', 'cluster', 'errors'),
    'monitor': ('node', 'probing', 'backends', 'cluster', 'errors'),
    'failover': ('monitor', 'node', 'probing', 'backends', 'cluster',
                 'errors'),
    'convert': ('failover', 'monitor', 'node', 'probing', 'backends',
                'cluster', 'errors'),
    'watch': ('failover', 'monitor', 'node', 'probing', 'backends',
              'cluster', 'errors'),
    'bench': ('failover', 'monitor', 'node', 'probing', 'backends',
              'cluster', 'errors'),
    'admin': ('bench', 'watch', 'failover', 'monitor', 'node', 'probing', 'backends',
              'cluster', 'errors'),
    'demo': ('admin', 'failover', 'monitor', 'node', 'probing',
             'backends', 'cluster', 'errors'),
    'cli': ('admin', 'bench', 'demo', 'watch', 'convert', 'failover', 'monitor', 'node',
            'probing', 'backends', 'cluster', 'errors'),
    'recipe': ('errors',),
}
