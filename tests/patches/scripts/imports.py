"""Imports a module."""
import importlib
import json
import sys

importlib.import_module(sys.argv[1])
print json.dumps('imported')
