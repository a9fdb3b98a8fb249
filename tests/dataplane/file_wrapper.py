"""Asks this process's Indico for a page; prints whether the web server gets a file to send by itself.

    file_wrapper.py PATH SESSION

Prints status, whether the answer is the server's own wrapper of a file, and the length of the file.
Run in a process of its own: Indico is configured once a process.
"""
import json
import os
import sys

from werkzeug.test import EnvironBuilder

from indico_zodbrepl.dataplane.indico.app import application


class Wrapper(object):
    """Stands for the web server's, with which it uses sendfile."""

    def __init__(self, filelike, blksize=8192):
        self.filelike = filelike


application.build(60)
environ = EnvironBuilder(path=sys.argv[1]).get_environ()
environ['wsgi.file_wrapper'] = Wrapper
environ['HTTP_COOKIE'] = 'indico_session=' + sys.argv[2]
statuses = []
answer = application(environ, lambda status, headers, exc_info=None: statuses.append(status))
is_file = type(answer) is Wrapper
print(json.dumps([statuses[0], is_file, is_file and os.fstat(answer.filelike.fileno()).st_size]))
