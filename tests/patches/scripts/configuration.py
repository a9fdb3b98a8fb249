"""Prints where Indico's configuration comes from."""
import json

from indico.core.config import Config

print json.dumps({'url': Config.getInstance().getBaseURL()})
