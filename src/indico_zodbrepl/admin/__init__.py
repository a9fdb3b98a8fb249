"""The admin page: shows the cluster, begins operations, answers programs.

``app.create_app`` makes the Flask application.  This module imports nothing, so that commands can
use ``admin.access`` without Flask.
"""
