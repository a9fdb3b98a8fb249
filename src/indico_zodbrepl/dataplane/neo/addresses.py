"""HOST:PORT on command lines."""
import argparse


def parse(text):
    """Returns (host, port); argparse.ArgumentTypeError for anything else."""
    host, separator, port = text.rpartition(':')
    if not separator or not port.isdigit():
        raise argparse.ArgumentTypeError('%r is not HOST:PORT' % text)
    return host.strip('[]'), int(port)
