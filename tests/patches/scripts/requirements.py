"""Looks for what the tree's requirements.txt and its egg-info ask for."""
import json
import sys

import pkg_resources

with open(sys.argv[1]) as lines:
    wanted = [line.strip() for line in lines if line.strip() and not line.startswith('--')]
missing = []
for each in wanted:
    try:
        pkg_resources.require(each)
    except pkg_resources.ResolutionError:
        missing.append(each)
try:
    pkg_resources.require('indico')
    distribution = True
except pkg_resources.ResolutionError:
    distribution = False
print json.dumps({'wanted': len(wanted), 'missing': missing, 'distribution': distribution})
