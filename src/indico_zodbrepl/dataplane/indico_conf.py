"""The indico.conf a command works with; Indico reads it when it is imported."""
import os


class Missing(Exception):
    """Says which indico.conf is not there."""


def require():
    """Raises Missing unless INDICO_CONF names a file that can be read."""
    path = os.environ.get('INDICO_CONF', '')
    try:
        open(path).close()
    except IOError as error:
        raise Missing(
            'no indico.conf: INDICO_CONF is %s; bin/zodbrepl up writes one for each '
            'instance, var/etc/INSTANCE/indico.conf'
            % ('%s: %s' % (path, error.strerror) if path else 'not set'))
