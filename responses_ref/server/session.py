"""One connection at work: does what the core wants done, and tells it what happened.

The core is synchronous and single-threaded, so every input is fed to it from
whatever task noticed it, and its actions are done at once, in order.  What
takes time runs in a task of the connection's nursery, each turn's under a
cancel scope of its own; a send never waits (``link`` has the outbox), so no task
can tear another's frame, and the reader is never held up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs
import trio

from responses_ref.model import ScriptedModel
from responses_ref.model.streamer import Plan, due
from responses_ref.pipeline import Pipeline
from responses_ref.protocol.actions import (
    Action,
    Bill,
    CancelModel,
    Close,
    LoadParent,
    Prepare,
    Send,
    SetDeadline,
    StartModel,
    Store,
)
from responses_ref.protocol.cache import Prepared
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.emitter import Ids
from responses_ref.protocol.errors import Refused
from responses_ref.protocol.events import Sendable
from responses_ref.protocol.lanes import Turn
from responses_ref.protocol.resource import Response
from responses_ref.protocol.settings import Settings
from responses_ref.store import Store as ResponseStore
from responses_ref.store import StoreFailed

from .timer import Timers
from .trace import Trace

BURST = 256  # pieces of one stream between two turns of the others (RWS-LAN-028)
BILL_SECONDS = 5.0  # what the account of a response may take, also when the connection is gone


class Sink(Protocol):
    """Where a connection's events go: a WebSocket or an HTTP response."""

    def send(self, events: Sequence[Sendable]) -> None:
        """Send these events in one write; never waits."""

    async def drained(self) -> None:
        """Wait while the peer reads slower than we send, and only then."""

    def close(self, code: int, reason: str) -> None:
        """End the connection after what has been sent."""


Biller = Callable[[Mapping[str, Any]], Awaitable[None]]


async def no_biller(record: Mapping[str, Any]) -> None:
    """The default: the account is the note in the trace."""


@attrs.frozen
class Rooms:
    """What all connections of a server share."""

    settings: Settings
    model: ScriptedModel
    pipeline: Pipeline
    store: ResponseStore
    timers: Timers
    ids: Callable[[int, int], Ids]  # of a connection's number and a request's on it
    draining: trio.Event
    biller: Biller = no_biller


@attrs.define(eq=False)
class Session:
    """The shell's half of one connection, beside the core's."""

    rooms: Rooms
    core: Connection
    sink: Sink
    nursery: trio.Nursery
    number: int
    tenant: int
    trace: Trace | None
    scopes: dict[int, trio.CancelScope] = attrs.Factory(dict)
    deadlines: set[str] = attrs.Factory(set)

    def feed(self, happened: Callable[..., list[Action]], *args: Any) -> None:
        """Tell the core that something happened, and do what it wants done."""
        events: list[Sendable] = []
        for action in happened(*args, now=trio.current_time()):
            if isinstance(action, Send):
                events.append(action.event)
                continue
            if events and isinstance(action, Close):
                self.sink.send(events)
                events = []
            DO[type(action)](self, action)
        if events:
            self.sink.send(events)

    def end(self) -> None:
        """Nothing more will happen: let go of the shared timer."""
        for name in self.deadlines:
            self.rooms.timers.deadlines.clear((self.number, name))

    def note(self, name: str, **fields: Any) -> None:
        """Write a note into the trace, if there is one."""
        if self.trace is not None:
            self.trace.note(name, **fields)

    # --- Actions. ---

    def _run(self, turn: Turn, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        scope = self.scopes[turn.number] = trio.CancelScope()

        async def task() -> None:
            with scope:
                if not scope.cancel_called:  # it can be cancelled before it has begun
                    await work(turn, *args)
            if self.scopes.get(turn.number) is scope:
                del self.scopes[turn.number]

        self.nursery.start_soon(task)

    def _cancel(self, action: CancelModel) -> None:
        scope = self.scopes.pop(action.turn.number, None)
        if scope is not None:
            scope.cancel()

    def _set_deadline(self, action: SetDeadline) -> None:
        key, deadlines = (self.number, action.name), self.rooms.timers.deadlines
        if action.at is None:
            self.deadlines.discard(action.name)
            deadlines.clear(key)
        else:
            self.deadlines.add(action.name)
            deadlines.set(key, action.at, lambda: self.feed(self.core.deadline, action.name), self.nursery)

    async def _load(self, turn: Turn, key: str | None, wanted: Sequence[str]) -> None:
        store, tenant = self.rooms.store, self.tenant
        node = await store.get(tenant, key) if key is not None else None
        found = {item_id: await store.item(tenant, item_id) for item_id in wanted}
        items = {item_id: item for item_id, item in found.items() if item is not None}
        self.feed(self.core.parent_loaded, turn, node, items)

    async def _prepare(self, turn: Turn) -> None:
        slices = self.rooms.pipeline.prepare(turn, lambda item_id: self.core.item(turn, item_id))
        try:
            for step in slices:
                if isinstance(step, Prepared):
                    self.feed(self.core.prepared, turn, step)
                    self.note("work", response_id=turn.live.response.id, **step.work)
                else:
                    await trio.sleep(step)
        except Refused as refused:
            self.feed(self.core.refused, turn, refused.problem)

    async def _play(self, turn: Turn, plan: Plan) -> None:
        """Hand over all that is due, against offsets from one start, so lateness never adds up."""
        start, index = trio.current_time(), 0
        while index < len(plan.parts):
            await self.sink.drained()
            now = await self.rooms.timers.wheel.until(start + plan.offsets[index])
            ready = due(plan, index, now - start)
            ready = min(max(ready, index + 1), index + BURST)
            batch = plan.parts[index:ready]
            index = ready
            self.feed(self.core.model, turn, batch)
        self._note_time(turn, plan, trio.current_time() - start)

    def _note_time(self, turn: Turn, plan: Plan, took: float) -> None:
        prepared = turn.prepared
        assert prepared is not None
        fresh = prepared.input_tokens - prepared.cached_tokens
        info = self.rooms.model.time_info(plan, fresh, prepared.cached_tokens)
        tokens, seconds = turn.live.output_tokens, info.completion_time + took - info.total_time
        rate = tokens / seconds if seconds > 0 else 0.0
        self.note(
            "time_info",
            response_id=turn.live.response.id,
            **attrs.asdict(info),
            lag=took - info.total_time,
            tokens_per_second=rate,
        )

    async def _store(self, turn: Turn, node: Any) -> None:
        try:
            await self.rooms.store.put(self.tenant, node)
        except StoreFailed:
            self.feed(self.core.store_failed, turn)
        else:
            self.feed(self.core.stored, turn)

    def _bill(self, action: Bill) -> None:
        self.nursery.start_soon(self._account, action.response)

    async def _account(self, response: Response) -> None:
        """Account for a response while the next turn runs; also when its connection has gone."""
        usage = response.usage.wire() if response.usage else None
        record = {"id": response.id, "model": response.echo["model"], "usage": usage}
        with trio.CancelScope(shield=True, deadline=trio.current_time() + BILL_SECONDS):
            await self.rooms.biller(record)
            self.note("bill", **record)

    def _close(self, action: Close) -> None:
        self.sink.close(action.code, action.reason)


DO: dict[type, Callable[[Session, Any], None]] = {
    LoadParent: lambda self, action: self._run(action.turn, self._load, action.id, action.items),
    Prepare: lambda self, action: self._run(action.turn, self._prepare),
    StartModel: lambda self, action: self._run(action.turn, self._play, action.plan),
    Store: lambda self, action: self._run(action.turn, self._store, action.node),
    CancelModel: Session._cancel,
    SetDeadline: Session._set_deadline,
    Bill: Session._bill,
    Close: Session._close,
}
