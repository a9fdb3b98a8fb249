"""The Indico application: WSGI, first run, adoption of an existing site, and the plugin."""
