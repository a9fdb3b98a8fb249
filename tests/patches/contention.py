"""Measures how long users who create events in one category at the same time wait, and how often in vain.

    parts/python27/bin/python tests/patches/contention.py --writers 4 8 --rounds 3
    parts/python27/bin/python tests/patches/contention.py --storage NEO=/srv/x/etc/zodb.conf

Compares Indico before and after the patches that are about conflicts, in interleaved rounds; each writer is
a process of its own that runs the whole of Indico. The database is one of its own behind a ZEO server, or
those that --storage names, which have to be empty: EVENTS ARE CREATED IN THEM. Prints a table, and with
--json FILE writes every figure.
"""
import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time

from sites import PATIENCE, Site, some_free_port
from trees import HERE, Trees

sys.path.insert(0, os.path.join(HERE, 'scripts'))
from server import Server  # noqa: E402

PATCHES = ('0019-conflicts-are-waited-out', '0020-turns-after-conflicts')
VARIANTS = ('before', 'pauses', 'turns')
COLUMNS = ('storage', 'variant', 'writers', 'saved', '503', 'other', '503 %', 'saved/s', 'tries', 'median s', '95 % s',
           'worst s', 'dry s', 'least', 'most')
MEANINGS = '''before, pauses, turns: without the two patches, with the first, with both.
saved: events created; 503: requests answered "try again"; other: any other answer.
tries: tries for each event saved. median, 95 %, worst: seconds a request took, whatever its answer.
dry: the longest time in which one writer got nothing saved. least, most: events of a single writer.'''


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--writers', type=int, nargs='+', default=[4, 8])
    parser.add_argument('--seconds', type=float, default=20, help='of each run')
    parser.add_argument('--thinking', type=float, default=0, metavar='SECONDS',
                        help='what a user does between two events, on average')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--storage', action='append', default=[], metavar='NAME=ZODB.CONF',
                        help='an empty database, instead of one behind a ZEO server; may be repeated')
    parser.add_argument('--json', help='file for all figures')
    return parser.parse_args()


@contextlib.contextmanager
def served(folder):
    """Yields the path of the zodb.conf of an empty database behind a ZEO server."""
    site = Site(folder)
    site.use_server(some_free_port())
    before = os.getcwd()
    os.chdir(folder)
    with open('zodb.conf') as conf:
        port = int(conf.read().split('127.0.0.1:')[1].split()[0])
    server = Server(port)
    server.start()
    try:
        yield site.path('zodb.conf')
    finally:
        server.kill()
        os.chdir(before)


def new_site(folder, zodb_conf):
    """Returns a site in a new folder below `folder`, with the database of `zodb_conf`.

    All those below one folder share their cache, as the instances of an Indico do.
    """
    site = Site(tempfile.mkdtemp(dir=folder))
    shutil.copy(zodb_conf, site.path('zodb.conf'))
    shared = os.path.join(folder, 'cache')
    if not os.path.isdir(shared):
        os.mkdir(shared)
    os.rmdir(site.path('cache'))
    os.symlink(shared, site.path('cache'))
    return site


def run(folder, tree, zodb_conf, category, writers, seconds, thinking):
    """Lets so many users of `tree` write for so many seconds; returns each one's requests."""
    folder = tempfile.mkdtemp(dir=folder)
    names = ['writer%d' % number for number in range(writers)]
    answers, threads = {}, []
    for name in names:
        def ask(name=name, site=new_site(folder, zodb_conf)):
            answers[name] = site.ask(tree, 'contend', category, name, folder, seconds, thinking)
        threads.append(threading.Thread(target=ask))
        threads[-1].start()
    deadline = time.time() + PATIENCE
    while not all(os.path.exists(os.path.join(folder, name + '.ready')) for name in names):
        if time.time() > deadline or not all(thread.is_alive() for thread in threads):
            break
        time.sleep(0.05)
    open(os.path.join(folder, 'go'), 'w').close()
    for thread in threads:
        thread.join()
    if len(answers) != writers:
        raise RuntimeError('a writer failed; see above')
    return answers


def dry_spell(requests):
    """Returns the longest time, in seconds, in which this writer got nothing saved."""
    moments = [0] + [each['ended'] for each in requests if each['status'] == 303] + [requests[-1]['ended']]
    return max(later - earlier for earlier, later in zip(moments, moments[1:]))


def figures(runs):
    """Returns the figures of several runs of one variant as a dict."""
    writers = [requests for answers in runs for requests in answers.values()]
    requests = [each for one in writers for each in one]
    waits = sorted(each['seconds'] for each in requests)
    saved = [sum(each['status'] == 303 for each in one) for one in writers]
    refused = sum(each['status'] == 503 for each in requests)
    lasted = sum(max(one[-1]['ended'] for one in answers.values()) for answers in runs)
    return {
        'saved': sum(saved), '503': refused, 'other': len(requests) - sum(saved) - refused,
        '503 %': round(100.0 * refused / len(requests), 1), 'saved/s': round(sum(saved) / lasted, 2),
        'tries': round(float(sum(each['tries'] for each in requests)) / max(sum(saved), 1), 2),
        'median s': round(waits[len(waits) // 2], 2), '95 % s': round(waits[int(len(waits) * 0.95)], 2),
        'worst s': round(waits[-1], 2), 'dry s': round(max(map(dry_spell, writers)), 1),
        'least': min(saved), 'most': max(saved)}


def table(rows):
    widths = [max(len(str(row[column])) for row in rows + [dict(zip(COLUMNS, COLUMNS))]) for column in COLUMNS]
    lines = [[column for column in COLUMNS]] + [[str(row[column]) for column in COLUMNS] for row in rows]
    return '\n'.join('  '.join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines)


def measure(options, folder, storages):
    """Prints the table.

    Args:
        storages: {name: path of its zodb.conf}.
    """
    made = Trees(tempfile.mkdtemp(dir=folder))
    before = made.before(PATCHES[0])
    trees = dict(zip(VARIANTS, (before, made.through(PATCHES[0]), made.through(PATCHES[1]))))
    categories = {name: new_site(folder, conf).ask(trees['turns'], 'firstrun')['category']
                  for name, conf in storages.items()}
    runs = {}
    for number in range(options.rounds):
        for writers in options.writers:
            for variant in VARIANTS[::-1] if number % 2 else VARIANTS:
                for name, conf in sorted(storages.items()):
                    answers = run(folder, trees[variant], conf, categories[name], writers,
                                  options.seconds, options.thinking)
                    runs.setdefault((name, writers, variant), []).append(answers)
                    sys.stderr.write('round %d, %s, %d writers, %s: %s\n' % (
                        number + 1, name, writers, variant, figures([answers])))
    rows = [dict(figures(runs[name, writers, variant]), storage=name, variant=variant, writers=writers)
            for name in sorted(storages) for writers in options.writers for variant in VARIANTS]
    print '%d rounds of %g s, %g s between two events' % (options.rounds, options.seconds, options.thinking)
    print table(rows)
    print MEANINGS
    if options.json:
        with open(options.json, 'w') as target:
            json.dump({'rounds': options.rounds, 'seconds': options.seconds, 'thinking': options.thinking,
                       'rows': rows}, target, indent=1, sort_keys=True)


def main():
    options = arguments()
    folder = tempfile.mkdtemp(prefix='contention-')
    try:
        if options.storage:
            measure(options, folder, dict(each.split('=', 1) for each in options.storage))
        else:
            with served(tempfile.mkdtemp(dir=folder)) as zodb_conf:
                measure(options, folder, {'ZEO': zodb_conf})
    finally:
        shutil.rmtree(folder)


if __name__ == '__main__':
    main()
