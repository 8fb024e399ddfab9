"""Serving until a signal, and leaving so that nobody loses what is on its way."""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio

from responses_ref.server import door
from responses_ref.server.accept import Listeners, Server

MARGIN_SECONDS = 2.0  # behind the grace time, for the last Close frames


async def serve(server: Server, listeners: Listeners, signals: AsyncIterator[int], grace: float) -> None:
    """Serve until the first signal, then drain; a second one, or the grace time's end, cuts what is left.

    The stages: nobody new comes in; idle connections get their Close, busy ones
    finish (the application sees to both); whoever is left is cut off.
    """
    async with server.running() as handlers:
        async with trio.open_nursery() as accepting:
            accepting.start_soon(door.serve, listeners, server.serve_stream, handlers)
            await anext(signals)
            accepting.cancel_scope.cancel()
        for listener in listeners:
            await listener.aclose()
        server.drain()
        with trio.move_on_after(grace + MARGIN_SECONDS) as patience:
            async with trio.open_nursery() as waiting:
                waiting.start_soon(_stop_at_next, signals, patience)
                await server.empty()
                waiting.cancel_scope.cancel()


async def _stop_at_next(signals: AsyncIterator[int], patience: trio.CancelScope) -> None:
    await anext(signals)
    patience.cancel()
