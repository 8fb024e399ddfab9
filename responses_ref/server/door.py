"""Accepting: all connections that wait, in one pass of the scheduler.

``trio.serve_listeners`` takes one a pass, which is a tenth of what a handshake costs here.
TLS listeners stay with it: what it does for them is little beside the encryption.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import trio

log = logging.getLogger("responses_ref")
AT_ONCE = 64  # connections that are accepted before the others have their turn
FULL = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
FULL_SECONDS = 0.1
BROKEN = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK}
Handler = Callable[[trio.abc.Stream], Awaitable[None]]


async def serve(listeners: Iterable[Any], handler: Handler, handlers: trio.Nursery) -> None:
    """Start a task of ``handlers`` for each connection, until cancelled."""
    async with trio.open_nursery() as nursery:
        for listener in listeners:
            if isinstance(listener, trio.SocketListener):
                nursery.start_soon(_accept, listener, handler, handlers)
            else:
                accept = partial(trio.serve_listeners, handler, [listener])
                nursery.start_soon(partial(accept, handler_nursery=handlers))


async def _accept(listener: trio.SocketListener, handler: Handler, handlers: trio.Nursery) -> None:
    with socket.socket(fileno=os.dup(listener.socket.fileno())) as door:
        door.setblocking(False)
        while True:
            await trio.lowlevel.wait_readable(door)
            try:
                for _ in range(AT_ONCE):
                    accepted, _ = door.accept()
                    accepted.setblocking(False)
                    stream = trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
                    handlers.start_soon(handler, stream)
            except BlockingIOError:
                pass
            except OSError as error:
                if error.errno in BROKEN:
                    raise
                if error.errno in FULL:
                    log.error("no more connections can be accepted for now: %s", os.strerror(error.errno))
                    await trio.sleep(FULL_SECONDS)
                # else a client gave up while it waited
