"""Send a blob's content to a ZEO server without holding up other requests of the process.

ZEO 5.4.1 sends the whole content at once: all other threads wait until a large blob has passed, and
on a slow line the server seems to be dead meanwhile.
"""
from __future__ import absolute_import

from ZEO.Exceptions import ClientDisconnected

# Messages of 59000 bytes, half of those that may be on their way at once.
WINDOW = 8


def send_in_turn(storage):
    """Make a `ClientStorage` send blobs only as fast as the server takes them.

    Sending raises ClientDisconnected if the connection ends meanwhile.
    """
    def send(messages):
        server = storage._server.client.protocol
        taken = None
        for number, (method, arguments) in enumerate(messages, 1):
            if storage._server.client.protocol is not server:
                raise ClientDisconnected('the server is away')
            storage._async(method, *arguments)
            if number % WINDOW == 0:
                if taken is not None:
                    taken.result()
                taken = storage._call('ping', wait=False)

    storage._async_iter = send
