"""Pass TCP connections on from a socket of the machine to an address that a host reaches.

    forward.py ADDRESS PORT

It is run as a file in the host and uses the standard library alone.  Standard input is the
listening socket: it was made outside, and stays in the network in which it was made.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

CHUNK = 1 << 16


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on one direction until its sender closes it; the other one may go on."""
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()


async def both_ways(
    near: asyncio.StreamReader, back: asyncio.StreamWriter, address: str, port: int
) -> None:
    """Pass on a connection until both directions are closed, or one of them breaks."""
    far, forth = await asyncio.open_connection(address, port)
    try:
        async with asyncio.TaskGroup() as directions:
            directions.create_task(pass_on(near, forth))
            directions.create_task(pass_on(far, back))
    finally:
        forth.close()


async def serve(address: str, port: int) -> None:
    async def connected(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            await both_ways(near, back, address, port)
        except* OSError:  # refused, or broken by one of the two
            back.transport.abort()
        finally:
            back.close()

    listener = socket.socket(fileno=os.dup(0))
    server = await asyncio.start_server(connected, sock=listener)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
