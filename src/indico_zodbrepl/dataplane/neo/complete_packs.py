"""Make the leading master report a pack that a storage did not finish.

NEO's master asks every connected storage to pack.  If one of them goes away
before it has packed, the master counts it as done, and reports success to the
client.  The storage then keeps records that the others have removed.  A
storage that goes away after it has packed, while others still pack, crashes
the master.

Here the client gets an error that names the storages which did not pack.
"""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.neo.library import import_neo

import_neo()

# Import it before its handlers, which import it too.
import neo.master.app  # noqa: E402, F401
from neo.lib.protocol import CellStates, Errors, Packets  # noqa: E402
from neo.master.handlers.client import ClientServiceHandler  # noqa: E402
from neo.master.handlers.storage import StorageServiceHandler  # noqa: E402

from indico_zodbrepl.dataplane.neo.errors import NO_PACK, PARTLY_PACKED  # noqa: E402
from indico_zodbrepl.dataplane.programs.addresses import format_address  # noqa: E402

_ask_pack = ClientServiceHandler.askPack.__func__


def _missing_copies(nodes, table):
    """Return which storages and copies are missing or outdated, in words; '' for none.

    Args:
        nodes, table: the node manager and the partition table of the leading master.
    """
    missing = [
        'storage %s is %s' % (format_address(each.getAddress()), each.getState())
        for each in nodes.getStorageList() if not each.isRunning()]
    for offset in range(table.getPartitions()):
        cells = table.getCellList(offset)
        if len(cells) <= table.getReplicas() or any(
                each.getState() != CellStates.UP_TO_DATE for each in cells):
            missing.append('partition %d lacks an up-to-date copy' % offset)
    return ', '.join(missing)


def install():
    """Patch the master of this process; call it before the master begins."""
    ClientServiceHandler.askPack = _ask_pack_of_all
    StorageServiceHandler.answerPack = _answer_pack


def _ask_pack_of_all(handler, connection, tid):
    app = handler.app
    missing = _missing_copies(app.nm, app.pt)
    if missing:
        connection.answer(Errors.ProtocolError(NO_PACK + missing))
        return
    if app.packing is None:
        app.gone_while_packing = []
    _ask_pack(handler, connection, tid)


def _answer_pack(handler, connection, packed):
    """Process a storage's answer; `packed` is false if its connection is lost."""
    app = handler.app
    if app.packing is None:
        return
    client, message, waiting = app.packing
    identity = connection.getUUID()
    if identity not in waiting:
        return
    waiting.remove(identity)
    if not packed:
        app.gone_while_packing.append(
            format_address(app.nm.getByUUID(identity).getAddress()))
    if waiting:
        return
    app.packing = None
    if not client.isClosed():
        gone = ', '.join(sorted(app.gone_while_packing))
        answer = Errors.ProtocolError(PARTLY_PACKED + gone) if gone else Packets.AnswerPack(True)
        client.send(answer, message)
