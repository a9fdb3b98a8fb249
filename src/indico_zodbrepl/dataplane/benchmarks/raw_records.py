"""The class that `raw` stores; servers that resolve conflicts import it too."""
from persistent import Persistent


class Record(Persistent):
    """An object with some bytes of content."""

    def __init__(self, content):
        self.content = content
