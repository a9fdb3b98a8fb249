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


def sync_file(path):
    """Flush the content of a file to disk."""
    with open(path, 'rb') as opened:
        os.fsync(opened.fileno())


def sync_parents(path, folder):
    """Flush the names of a file and of its folders to disk, up to and including a folder."""
    folder = os.path.abspath(folder)
    while len(path) > len(folder):
        path = parent(path)
        sync_folder(path)


def parent(path):
    return os.path.dirname(os.path.abspath(path))


def identity(path):
    """Return the device and inode of a file; None if it is missing or unreachable."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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


def copy_file(source, path, tell=None):
    """Copy a file atomically; an existing one is replaced.

    Args:
        tell: called with the bytes of each block that is written; or None.
    """
    new = path + '.part'
    with create(new) as target:
        for part in blocks(source):
            target.write(part)
            if tell is not None:
                tell(len(part))
        target.flush()
        os.fsync(target.fileno())
    os.rename(new, path)
    sync_folder(parent(path))


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


def size_and_sha256(path):
    """Return the number of bytes in a file and their SHA-256 in hex."""
    content, size = hashlib.sha256(), 0
    for block in blocks(path):
        content.update(block)
        size += len(block)
    return size, content.hexdigest()


def remove(path):
    """Remove a file or a folder, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
