"""Digests that stand for the data of a file on another host."""
from __future__ import absolute_import

import ctypes
import hashlib

from indico_zodbrepl.dataplane.datafs.records import NO_DATA, NUMBER, digest

TRANSACTION_DIGEST = 20  # bytes
RECORD_DIGEST = 16  # bytes
LIBRARIES = ('libcrypto.so.3', 'libcrypto.so.1.1')


CONTEXT = 256  # bytes; more than OpenSSL's SHA256_CTX


def _load():
    """Return OpenSSL's library, or None.

    This Python is built without OpenSSL, and its own SHA-256 takes four times as long.
    """
    for name in LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            library.SHA256.argtypes = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p
            library.SHA256.restype = ctypes.c_void_p
            library.SHA256_Init.argtypes = (ctypes.c_char_p,)
            library.SHA256_Update.argtypes = ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t
            library.SHA256_Final.argtypes = ctypes.c_char_p, ctypes.c_char_p
        except (OSError, AttributeError):
            continue
        return library
    return None


_openssl = _load()


def of_bytes(data):
    """Return the SHA-256 of bytes."""
    if _openssl is None:
        return hashlib.sha256(data).digest()
    result = ctypes.create_string_buffer(32)
    _openssl.SHA256(data, len(data), result)
    return result.raw


def of_blocks(blocks):
    """Return the SHA-256 of bytes that come in blocks, of which one is in memory at a time."""
    if _openssl is None:
        content = hashlib.sha256()
        for block in blocks:
            content.update(block)
        return content.digest()
    context, result = ctypes.create_string_buffer(CONTEXT), ctypes.create_string_buffer(32)
    _openssl.SHA256_Init(context)
    for block in blocks:
        _openssl.SHA256_Update(context, block, len(block))
    _openssl.SHA256_Final(result, context)
    return result.raw


def of_transaction(data_file, transaction):
    """Return the beginning of `records.digest` of a transaction of a DataFile, as bytes."""
    return digest(data_file, transaction)[:2 * TRANSACTION_DIGEST].decode('hex')


def of_texts(transaction):
    """Return a digest of the metadata of a transaction."""
    parts = [NUMBER.pack(len(text)) + text for text in transaction.metadata]
    return of_bytes(b''.join(parts))[:RECORD_DIGEST]


def of_record(data_file, record):
    """Return a digest of the tid and the data of a record of a DataFile."""
    data = data_file.data(record)
    length = NUMBER.pack(NO_DATA if data is None else len(data))
    return of_bytes(record.tid + length + (data or b''))[:RECORD_DIGEST]
