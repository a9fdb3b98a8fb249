"""Write files and folders that are on disk when a function returns."""
import hashlib
import os
import shutil

BLOCK = 4 << 20  # bytes


def sync_folder(path):
    """Flush the names in a folder to disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def parent(path):
    return os.path.dirname(os.path.abspath(path))


def create(path):
    """Open an empty file for writing, readable by its owner only: it may hold users' data."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'wb')


def write_file(path, parts):
    """Write a file atomically and return the SHA-256 of its content.

    Args:
        path: of the file; an existing one is replaced.
        parts: an iterable of bytes.
    """
    content = hashlib.sha256()
    new = path + '.part'
    with create(new) as target:
        for part in parts:
            content.update(part)
            target.write(part)
        target.flush()
        os.fsync(target.fileno())
    os.rename(new, path)
    sync_folder(parent(path))
    return content.hexdigest()


def blocks(path, position=0):
    """Yield the bytes of a file from a position to its end."""
    with open(path, 'rb') as source:
        source.seek(position)
        while True:
            block = source.read(BLOCK)
            if not block:
                return
            yield block


def sha256(path, position=0):
    content = hashlib.sha256()
    for block in blocks(path, position):
        content.update(block)
    return content.hexdigest()


def remove(path):
    """Remove a file or a folder, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
