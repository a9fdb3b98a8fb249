"""Somebody at a real Indico of a `Home`: fills in its forms as a browser would."""
import lxml.html
import requests

from processes import PATIENCE, free_ports

LOGIN, PASSWORD = 'admin', 'only for this test'


class Visitor(object):
    """Starts an Indico and is logged in as its administrator; `close` ends it.

    Args:
        home: the `Home` whose data it serves.
    """

    def __init__(self, home):
        self._port, = free_ports(1)
        self._base = 'http://127.0.0.1:%d/indico' % self._port
        self._process = home.start(
            '-m', 'gunicorn.app.wsgiapp', '--bind', '127.0.0.1:%d' % self._port,
            '--worker-class', 'gthread', '--threads', '2', '--graceful-timeout', '5',
            'indico_zodbrepl.dataplane.indico.app:application')
        self._process.wait_for_port(self._port)
        self._session = requests.Session()
        answer = self._session.post(self._base + '/user/login', allow_redirects=False,
                                    data={'login': LOGIN, 'password': PASSWORD},
                                    timeout=PATIENCE)
        assert 303 == answer.status_code, answer.text

    def close(self):
        """Ends the Indico in order, so that a further one finds all that was done."""
        self._process.terminate()

    def page(self, path):
        """Returns a page's text; anything but 200 is a failure."""
        answer = self._get(path)
        while answer.status_code in (302, 303):
            answer = self._get(_below(answer.headers['location']))
        assert 200 == answer.status_code, '%s: %d\n%s' % (path, answer.status_code, answer.text)
        return answer.text

    def _get(self, path):
        return self._session.get(self._base + path, allow_redirects=False, timeout=PATIENCE)

    def submit(self, path, action, button, **values):
        """Opens a page, fills in a form on it and presses a button.

        Args:
            path: of the page, below /indico.
            action: how the address ends that the form is sent to, without what follows '?'.
            button: its name.
            values: what is filled in, by name; the rest is sent as the page has it.

        Returns the address that Indico leads to then, below /indico.
        """
        page = lxml.html.fromstring(self.page(path))
        form, = [each for each in page.forms if (each.action or '').split('?')[0].endswith(action)]
        fields = [(name, value) for name, value in form.form_values() if name not in values]
        return self.send(_below(form.action), fields + list(values.items()) + [(button, 'yes')])

    def send(self, path, fields):
        """Posts fields as a script of a page does; returns where Indico leads to."""
        answer = self._session.post(
            self._base + path, data=[(name, _utf8(value)) for name, value in fields],
            allow_redirects=False, timeout=PATIENCE)
        assert answer.status_code in (302, 303), '%s: %d\n%s' % (path, answer.status_code, answer.text)
        return _below(answer.headers['location'])


def _below(address):
    """The part of an address of this Indico below /indico; its pages name another host."""
    return address.partition('/indico')[2]


def _utf8(value):
    return value.encode('utf-8') if isinstance(value, unicode) else value
