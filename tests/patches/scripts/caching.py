"""Writes a cached value again and again while a process reads it; prints what that one got."""
import json
import multiprocessing
import sys
import tempfile

from MaKaC.common.cache import FileCacheClient

SECONDS = 60
VALUE = {'user': 'x' * 20000}


def read(folder, ended, found):
    client = FileCacheClient(folder)
    others = reads = 0
    while not ended.is_set():
        reads += 1
        try:
            others += client.get('session.key') != VALUE
        except Exception:
            others += 1
    found.put((reads, others))


def main():
    folder = tempfile.mkdtemp(dir=sys.argv[1])
    client = FileCacheClient(folder)
    client.set('session.key', VALUE)
    ended, found = multiprocessing.Event(), multiprocessing.Queue()
    reader = multiprocessing.Process(target=read, args=(folder, ended, found))
    reader.start()
    for _ in range(3000):
        client.set('session.key', VALUE)
    ended.set()
    reads, others = found.get(timeout=SECONDS)
    reader.join(SECONDS)
    print(json.dumps({'reads': reads, 'others': others}))


main()
